"""The advice of few completions in words: how many there were, and what they show."""

from collections.abc import Mapping

from mse_lab.answers.advice import Advice
from mse_lab.mse.stopping import Stopped, rarest_seen

# Why no more completions were drawn.
STOPPED: Mapping[Stopped, str] = {
    "regret": ": enough to show what the size costs",
    "width": ": enough to know G*",
    "budget": ", and the budget is spent; a larger one narrows the answer",
    "exhausted": ", and there are no more prompts; further ones narrow the answer",
}

NOT_ESTIMATED = (
    "Not estimated here: the MSE itself, and estimators that use norms or lengths; mse-lab "
    "run measures them."
)

# By `tests/benchmarks/stopping.py`, in every population, at this level of confidence, of
# runs that had seen enough prompts for the kinds that their population has.
LEVEL = 0.95
MEASURED = (
    'In simulations such an "at most" was true in 97% of runs or more, whenever they '
    "ended, if no kind of prompts rarer than 1 in {rarest} made most of the difference "
    "between prompts' gradients: of {prompts} prompts drawn at random none may be of it."
)


def say_stopped(advice: Advice) -> str:
    """Say how few completions the advice rests on, and why there are no more."""
    if advice.stopped is None:
        return ""
    drawn = f"{advice.completions:,} completions of {advice.prompts} prompts were drawn"
    why = STOPPED[advice.stopped]
    rarest = rarest_seen(advice.prompts)
    known = MEASURED.format(rarest=rarest, prompts=advice.prompts)
    measured = f" {known}" if advice.level >= LEVEL else ""
    return (
        f"{drawn}, {advice.differentiated:,} of them differentiated{why}. "
        f"{NOT_ESTIMATED}{measured}"
    )
