"""What an advice rests on, in words: how many completions, and how often it is true."""

from collections.abc import Mapping

from mse_lab.answers.advice import Advice
from mse_lab.mse.stopping import Stopped, fewest_seen, rarest_seen

# Why no more completions were drawn.
STOPPED: Mapping[Stopped, str] = {
    "regret": ": enough for a verdict",
    "width": ": G* is known, and there are no more prompts, which could tell",
    "budget": ", and the budget is spent; a larger one narrows the answer",
    "exhausted": ", and there are no more prompts; further ones narrow the answer",
}

NOT_ESTIMATED = (
    "Errors here follow from exact laws; mse-lab run also measures them, and estimators "
    "that use norms or lengths."
)

# At this level of confidence, in every population of `tests/benchmarks/stopping.py` of
# which so many prompts know the kinds, and in every one of `regret.py`.
LEVEL = 0.95
OF_SAMPLES = (
    'In simulations such an "at most" was true in 98% of runs or more, and an interval '
    "in 92% or more on average, in 69% at worst, if no kind of prompts rarer than 1 in "
    "{rarest} made most of the difference between prompts' gradients: of {prompts} "
    "prompts drawn at random none may be of it."
)
OF_RUNS = (
    "It is about all prompts like these, at 95% confidence, where no kind of them rarer "
    "than 1 in {rarest} decides."
)

# Of a set of prompts, by the rows of such sets there.
OF_A_SET = (
    "All this is said of these {size} prompts alone (prompts.population = these), "
    "{measured} measured"
)
OF_THE_OTHERS = (
    ", if no kind of fewer than {fewest} prompts made most of the difference between "
    "prompts' gradients: none of it may have been measured."
)


def say_stopped(advice: Advice) -> str:
    """Say how few completions the advice rests on, and why there are no more."""
    if advice.stopped is None:
        return ""
    drawn = f"{advice.completions:,} completions of {advice.prompts} prompts were drawn"
    why = STOPPED[advice.stopped]
    return (
        f"{drawn}, {advice.differentiated:,} of them differentiated{why}. {NOT_ESTIMATED}"
    )


def _say_of_a_set(measured: int, size: int) -> str:
    """Say of a set of prompts, some or all of them measured, that it is of these alone."""
    words = OF_A_SET.format(size=size, measured="all" if measured == size else measured)
    fewest = fewest_seen(measured, size)
    return words + (OF_THE_OTHERS.format(fewest=fewest) if fewest > 1 else ".")


def say_level(advice: Advice) -> str:
    """Say of which prompts "at most" is true, and of few completions how often."""
    if advice.level < LEVEL:
        return ""
    sampled = advice.stopped is not None
    if advice.population is not None:
        return _say_of_a_set(advice.prompts, advice.population)
    rarest = rarest_seen(advice.prompts, looked=sampled)
    return (OF_SAMPLES if sampled else OF_RUNS).format(
        rarest=rarest, prompts=advice.prompts
    )
