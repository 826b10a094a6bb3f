"""The advice in words, the answer first: a screen, the last lines of a run, a section."""

import math
from collections.abc import Container, Iterator, Sequence

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.alternatives import BOUND, Alternative
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.regret import LARGE, LARGEST, percent_up
from mse_lab.answers.trainer_settings import (
    CALLED,
    HOW,
    NO_TRAINER,
    TRAINER_SETTINGS,
    TRLS_SIZE,
)
from mse_lab.errors import InputError
from mse_lab.formatting import (
    NONE,
    number,
    table,
    times,
    with_interval,
    wrap,
)

BOUNDS_ONLY = (
    "||g||^2 over random prompts is not significantly different from zero: group sizes can "
    "be compared without it, errors relative to it and biased estimators cannot."
)

HOLDS = (
    "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores "
    "summed over tokens, for rewards and prompts like these. Trainers add batch rules."
)

LEAST_ERROR = (
    "This is the size of least gradient error; training feels less of the wording's "
    "noise, so its best size may be smaller."
)

# Group sizes on the screen, with the recommended one, unless others are asked for.
SHOWN = (8, 16, 32)

# The columns of a terminal, and where in it the trainers' settings begin.
WIDTH, SETTING = 80, 12

# The curve is flat where sizes that differ by a factor of FLAT cost at most FLATNESS more
# than the best.
FLAT, FLATNESS = 4, 0.1


def _regret(bound: float) -> str:
    return f"at most {percent_up(bound):.0%}"


def _near(advice: Advice) -> str:
    """Say which sizes are as good, and whether the curve is flat there."""
    first, last = advice.near_best
    if first == last:
        return ""
    largest = ", the largest considered," if last == LARGEST else ""
    near = f"any size from {first} to {last}{largest} {_regret(advice.near_regret)}"
    flat = last >= FLAT * first and advice.near_regret <= FLATNESS
    return f"the curve is flat: {near}" if flat else near


def headline(advice: Advice) -> str:
    """Say in a sentence or two what to do, and with which confidence."""
    if not advice.held:
        return "No advice: a built-in check of this run FAILED; checks.json says which."
    size, confidence = advice.recommended, f"({advice.level:.0%} confidence)"
    if advice.regret > LARGE:
        return (
            f"Set num_generations to {size}; but {advice.prompts} prompts are too few to "
            "tell whether it costs less than twice the completions of the best group size "
            f"{confidence}."
        )
    near = _near(advice)
    return (
        f"Set num_generations to {size}. It costs {_regret(advice.regret)} more "
        f"completions than the best group size{'; ' * bool(near)}{near} {confidence}."
    )


def best_size_words(advice: Advice) -> str:
    """Write G* for a terminal."""
    if not advice.unbounded:
        return with_interval(advice.best)
    return (
        f"at least {advice.best.low:.1f} (more than these {advice.prompts} prompts would "
        "bound it)"
    )


def _beats_vanilla(advice: Advice) -> str:
    value, low, high = advice.beats_vanilla_from
    if math.isinf(low):
        return "GRPO-type never beats vanilla (no baseline)."
    beats = "GRPO-type beats vanilla (no baseline)"
    if math.isinf(value):
        return f"{beats} at no G; the interval is from {low:.0f} on, to never."
    last = "never" if math.isinf(high) else f"{high:.0f}"
    return f"{beats} from G = {value:.0f} on ({low:.0f} to {last})."


# What it means for a baseline near the value V to be on a side of the line.
_SIDES = {
    "above": "above {line}: a baseline near V pays",
    "below": "below {line}: a baseline near V costs",
    "undecided": (
        "not significantly different from {line}, where a baseline near V does nothing"
    ),
}


def say_regime(advice: Advice) -> str:
    """Say on which side of vanilla the run is, and why."""
    one = advice.regime
    where, line, half = one.best_baseline, "V/2", one.value / 2
    name = "The best constant baseline"
    if one.binary:
        where, line, half = one.rho, "(1-V)/(2-V)", one.line
        name = "rho, right over wrong completions' squared score norm,"
    if math.isnan(where.value):
        return ""
    side = _SIDES[one.side].format(line=f"{line} = {number(half)}")
    return f"{name} is {with_interval(where)}, {side}. {_beats_vanilla(advice)}"


def say_prompts(advice: Advice) -> str:
    """Say on which side of vanilla its prompts are."""
    one = advice.regime
    above = f"GRPO-type's baseline pays on {one.vanilla_worse} of {one.prompts} prompts"
    return f"{above}; median rho {number(one.median_rho)}." if one.binary else f"{above}."


def called(name: str) -> str:
    """Call an estimator what a reader knows it as."""
    return CALLED.get(name, name)


def best_usable(advice: Advice, *, unbiased: bool = False) -> Alternative | None:
    """Find the cheapest estimator that is shown to beat GRPO-type, if any is."""
    usable = (
        one
        for one in advice.alternatives
        if one.estimator != BOUND and one.unbiased >= unbiased
    )
    return next((one for one in usable if one.cost.high < 1), None)


def _needs(one: Alternative) -> str:
    """Say what an estimator needs compared with GRPO-type, and by which change."""
    how = HOW.get(one.estimator, NO_TRAINER)
    return (
        f"{called(one.estimator)} at G = {one.group_size} takes {times(one.cost)} "
        f"the completions ({how})."
    )


def better(advice: Advice) -> str:
    """Say what needs the fewest completions, and the fewest of what is unbiased."""
    one, unbiased = best_usable(advice), best_usable(advice, unbiased=True)
    if one is None:
        return (
            "No other estimator that training could use is shown to need fewer completions."
        )
    if one == unbiased:
        return f"Another estimator needs fewer: {_needs(one)}"
    biased = f"Another estimator, which is biased, needs fewer: {_needs(one)}"
    return f"{biased} One that is unbiased: {_needs(unbiased)}" if unbiased else biased


def sentences(advice: Advice) -> list[str]:
    """Say what to do and what else would do, the answer first."""
    return [headline(advice), better(advice), LEAST_ERROR]


def warnings_of(advice: Advice) -> list[str]:
    """Give what a reader should know first, a sentence each."""
    bounds_only = math.isinf(advice.noise_scale.high)
    return [*([BOUNDS_ONLY] if bounds_only else []), *advice.warnings]


def error_name(advice: Advice) -> str:
    """Name the relative error of the advice."""
    return f"MSE/||g||^2 at N = {advice.budget}, G = {advice.recommended}"


def _cost_table(advice: Advice, sizes: Container[int]) -> list[str]:
    """Say what other group sizes and estimators need for the same error."""
    costs = []
    for row in advice.rows:
        if row.group_size in sizes and row.group_size != advice.recommended:
            default = " (TRL's default G)" if row.group_size == TRLS_SIZE else ""
            name = f"{called('grpo')}, G = {row.group_size}{default}"
            costs.append([f"  {name}", times(row.cost)])
    for one in advice.alternatives:
        costs.append([f"  {called(one.estimator)}, G = {one.group_size}", times(one.cost)])
    for single in advice.singles:
        name = f"  {single.estimator}, G = {single.group_size}"
        costs.append([name, f"{times(single.ratio)} *"])
    level = f"{100 * advice.level:g}% interval"
    heads = [
        "Completions for the same error",
        f"against G = {advice.recommended} ({level})",
    ]
    lines = table(costs, heads, "<<").splitlines()
    if advice.singles:
        lines.append("  * compared with GRPO-type at the same G, on single prompts only")
    return lines


def advice_text(advice: Advice, sizes: Sequence[int] = (), width: int = WIDTH) -> str:
    """Say the advice on one screen, with the costs of these group sizes, or of SHOWN.

    Where a built-in check failed, nothing but that.
    """
    if not advice.held:
        warnings = [f"warning: {one}" for one in advice.warnings]
        return "".join(f"{wrap(one, width)}\n" for one in (headline(advice), *warnings))
    size = advice.recommended
    error = f"{error_name(advice)}: {with_interval(advice.relative_error)}"
    about = [say_regime(advice), f"G* = {best_size_words(advice)}; {error}"]
    lines = [
        *(wrap(f"warning: {one}", width) for one in warnings_of(advice)),
        *(wrap(one, width) for one in sentences(advice)),
        *(wrap(one, width, 4) for one in _cost_table(advice, sizes or SHOWN)),
        *(wrap(one, width) for one in about if one),
        "GRPO-type as measured, up to a factor:",
        *(
            wrap(f"  {one.trainer:<9} {one.line(size)}", width, SETTING)
            for one in TRAINER_SETTINGS
        ),
    ]
    return "".join(f"{line}\n" for line in lines)


def answer(advice: Advice) -> Iterator[str]:
    """Say what the last lines of a run say."""
    yield headline(advice)
    if not advice.held:
        return
    costs = [
        f"G = {row.group_size} takes {number(row.cost.value)}"
        for row in advice.rows
        if row.group_size in (8, 16) and row.group_size != advice.recommended
    ]
    yield f"instead {', '.join(costs)} times the completions"
    if one := best_usable(advice):
        cost = times(one.cost)
        yield f"{called(one.estimator)}, G = {one.group_size}, takes {cost}"
    yield f"{error_name(advice)}: {with_interval(advice.relative_error)}"


def advise_source(source: FinishedRun) -> Advice | str:
    """Work out the advice, or say why there is none."""
    if not source.held:
        return "a built-in check FAILED"
    try:
        return advise(source)
    except InputError as error:
        return str(error)


def best_size(advice: Advice | str) -> str:
    """Write G* in a few words."""
    if isinstance(advice, str):
        return NONE
    best = advice.best
    return f"at least {best.low:.1f}" if advice.unbounded else with_interval(best)
