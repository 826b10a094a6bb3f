"""The advice of few completions in words: how few they were, and what they do not tell."""

from collections.abc import Mapping

from mse_lab.answers.advice import Advice
from mse_lab.formatting import number
from mse_lab.mse.stopping import Stopped

# Why no more completions were drawn.
STOPPED: Mapping[Stopped, str] = {
    "regret": ": enough to show what the size costs",
    "width": ": enough to know G*",
    "budget": ", and the budget is spent",
    "exhausted": ", and there are no more prompts",
}

UNTOLD = (
    "Not estimated here: the MSE itself, and estimators that use norms or lengths; mse-lab "
    "run measures them."
)

# By `tests/benchmarks/stopping.py`, in every population, at this level of confidence.
LEVEL = 0.95
MEASURED = 'In simulations such an "at most" was true in 99% of runs, whenever they ended.'


def say_stopped(advice: Advice) -> str:
    """Say how few completions it rests on, and why there are no more."""
    if advice.stopped is None:
        return ""
    drawn = f"{advice.completions:,} completions of {advice.prompts} prompts were drawn"
    why = STOPPED[advice.stopped]
    more = ""
    if advice.wanted:
        more = f" Some {number(float(f'{advice.wanted:.2g}'))} completions would show G*."
    ended = advice.stopped in ("budget", "exhausted")
    measured = f" {MEASURED}" * (advice.level >= LEVEL)
    return (
        f"{drawn}, {advice.differentiated:,} of them differentiated{why}.{more * ended} "
        f"{UNTOLD}{measured}"
    )
