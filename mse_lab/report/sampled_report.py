"""The advice of few completions in words: how many there were, what more would give."""

import math
from collections.abc import Mapping

from mse_lab.answers.advice import Advice
from mse_lab.formatting import number
from mse_lab.mse.stopping import Stopped, rarest_seen

# Why no more completions were drawn.
STOPPED: Mapping[Stopped, str] = {
    "regret": ": enough to show what the size costs",
    "width": ": enough to know G*",
    "budget": ", and the budget is spent",
    "exhausted": ", and there are no more prompts",
}

# Of these, those that leave the question open.
UNANSWERED: tuple[Stopped, ...] = ("budget", "exhausted")

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
    more = ""
    if advice.wanted and advice.stopped in UNANSWERED:
        more = f" Some {number(float(f'{advice.wanted:.2g}'))} completions would show G*."
    rarest = rarest_seen(advice.prompts)
    known = MEASURED.format(rarest=rarest, prompts=advice.prompts)
    measured = f" {known}" if advice.level >= LEVEL else ""
    return (
        f"{drawn}, {advice.differentiated:,} of them differentiated{why}.{more} "
        f"{NOT_ESTIMATED}{measured}"
    )


def say_limit(stopped: Stopped, width: float, limit: float) -> str:
    """Say what more completions of each prompt could still give, where there are no more.

    Args:
        stopped: Why there are no more.
        width: Half-width of the interval of log(G*-1).
        limit: The half-width that it would have with endless completions; NaN where that
            is not known.
    """
    if stopped not in UNANSWERED:
        return ""
    if math.isnan(limit) or math.isinf(width):
        return "It is not known yet what more completions of these prompts would add."
    now, then = (f"{math.exp(end):.2g}" for end in (width, limit))
    known = f"G*-1 is known within a factor of {now}."
    if now == then:
        return f"{known} More prompts can narrow that, more completions of these cannot."
    return (
        f"{known} More completions of these prompts can bring that down to {then}, more "
        "prompts further."
    )
