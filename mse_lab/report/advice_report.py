"""The advice in words, the answer first: a screen, the last lines of a run, a section."""

import math
from collections.abc import Container, Iterator, Sequence

from mse_lab.answers.advice import Advice
from mse_lab.answers.alternatives import BOUND, Alternative
from mse_lab.answers.trainer_settings import (
    DISPLAY_NAMES,
    ESTIMATOR_SETTINGS,
    NO_TRAINER,
    TRAINER_SETTINGS,
    TRLS_SIZE,
)
from mse_lab.formatting import WIDTH, number, table, times, with_interval, wrap
from mse_lab.mse.regret import LARGE, LARGEST, percent_up
from mse_lab.report.felt_report import felt_headline, felt_sentences, felt_table, unfelt
from mse_lab.report.mismatch_report import mismatch_lines
from mse_lab.report.sampled_report import say_level, say_stopped

BOUNDS_ONLY = (
    "||g||^2 over random prompts is not significantly different from zero: group sizes can "
    "be compared without it, errors relative to it and biased estimators cannot."
)

HOLDS = (
    "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores "
    "summed over tokens, for rewards and prompts like these. Trainers add batch rules."
)

# The group sizes on the screen, unless others are asked for.
SHOWN = (8, 16, 32)

# The column in which the trainers' settings begin.
SETTING = 12

# The curve is flat where sizes that differ by a factor of FLAT cost at most FLATNESS more
# than the best.
FLAT, FLATNESS = 4, 0.1


def _at_most(regret: float) -> str:
    return f"at most {percent_up(regret):.0%}"


def _near_best(advice: Advice) -> str:
    """Say which sizes are as good, and whether the curve is flat there."""
    first, last = advice.near_best
    if first == last:
        return ""
    largest = ", the largest considered," if last == LARGEST else ""
    near = f"any size from {first} to {last}{largest} {_at_most(advice.near_regret)}"
    flat = last >= FLAT * first and advice.near_regret <= FLATNESS
    return f"the curve is flat: {near}" if flat else near


def headline(advice: Advice) -> str:
    """Say in a sentence or two what to do, and with which confidence."""
    if not advice.held:
        return "No advice: a built-in check of this run FAILED; checks.json says which."
    if felt := advice.decisive:
        return felt_headline(felt, advice.num_generations, _price(advice))
    choice, price = f"Set num_generations to {advice.recommended}", _price(advice)
    if advice.regret > LARGE:
        return f"{choice}; but {price}"
    return f"{choice}. {price[0].upper()}{price[1:]}"


def _price(advice: Advice) -> str:
    """Say what the size of least gradient error costs at most."""
    confidence = f"({advice.level:.0%} confidence)"
    if advice.regret > LARGE:
        return (
            f"{advice.prompts} prompts are too few to tell whether it costs less than "
            f"twice the completions of the best group size {confidence}."
        )
    cost = f"it costs {_at_most(advice.regret)} more completions than the best group size"
    near_best = _near_best(advice)
    return f"{cost}; {near_best} {confidence}." if near_best else f"{cost} {confidence}."


def best_size(advice: Advice) -> str:
    """Write G*."""
    best = advice.best
    return f"at least {best.low:.1f}" if advice.unbounded else with_interval(best)


def _beats_vanilla(advice: Advice) -> str:
    value, low, high = advice.beats_vanilla_from
    if math.isinf(low):
        return "Over all prompts together GRPO-type never beats vanilla (no baseline)."
    beats = "GRPO-type beats vanilla (no baseline)"
    if math.isinf(value):
        return f"{beats} at no G; the interval is from {low:.0f} on, to never."
    last = "never" if math.isinf(high) else f"{high:.0f}"
    return f"{beats} from G = {value:.0f} on ({low:.0f} to {last})."


# What a side of the line means for a baseline near the value V.
_SIDES = {
    "above": "above {line}: a baseline near V reduces the error",
    "below": "below {line}: a baseline near V increases the error",
    "undecided": (
        "not significantly different from {line}, where a baseline near V changes nothing"
    ),
}


def say_regime(advice: Advice) -> str:
    """Say on which side of vanilla the run is, and why."""
    regime = advice.regime
    name, estimate = "The best constant baseline", regime.best_baseline
    line = f"V/2 = {number(regime.value / 2)}"
    if regime.binary:
        name = "rho, the squared score norm of right over wrong completions,"
        estimate, line = regime.rho, f"(1-V)/(2-V) = {number(regime.line)}"
    if math.isnan(estimate.value):
        return ""
    side = _SIDES[regime.side].format(line=line)
    return f"{name} is {with_interval(estimate)}, {side}. {_beats_vanilla(advice)}"


def say_prompts(advice: Advice) -> str:
    """Say on which side of vanilla its prompts are."""
    regime = advice.regime
    pays = f"pays on {regime.vanilla_worse} of {regime.prompts} prompts"
    rho = f"; median rho {number(regime.median_rho)}" if regime.binary else ""
    return f"Taken singly, GRPO-type's baseline {pays}{rho}."


def display_name(name: str) -> str:
    """Give the name by which readers know an estimator."""
    return DISPLAY_NAMES.get(name, name)


def best_usable(advice: Advice, *, unbiased: bool = False) -> Alternative | None:
    """Find the cheapest estimator that is shown to beat GRPO-type, if any is."""
    usable = (
        alternative
        for alternative in advice.alternatives
        if alternative.estimator != BOUND and alternative.unbiased >= unbiased
    )
    return next((cheaper for cheaper in usable if cheaper.cost.high < 1), None)


def _needs(alternative: Alternative) -> str:
    """Say what an estimator needs compared with GRPO-type, and by which change."""
    settings = ESTIMATOR_SETTINGS.get(alternative.estimator, NO_TRAINER)
    return (
        f"{display_name(alternative.estimator)} at G = {alternative.group_size} takes "
        f"{times(alternative.cost)} the completions ({settings})."
    )


def say_better(advice: Advice) -> str:
    """Say which estimator needs the fewest completions, and which unbiased one."""
    cheapest, unbiased = best_usable(advice), best_usable(advice, unbiased=True)
    if cheapest is None:
        return (
            "No other estimator that training could use is shown to need fewer completions."
        )
    if cheapest == unbiased:
        return f"Another estimator needs fewer: {_needs(cheapest)}"
    biased = f"Another estimator, which is biased, needs fewer: {_needs(cheapest)}"
    return f"{biased} One that is unbiased: {_needs(unbiased)}" if unbiased else biased


def sentences(advice: Advice) -> list[str]:
    """Say what to do and what else would do, the answer first."""
    parts = [headline(advice), say_stopped(advice), say_better(advice)]
    if not advice.decisive:
        measured = advice.felt is not None and advice.felt.optimizer == advice.optimizer
        parts.append(unfelt(advice.optimizer, measured=measured))
    if advice.felt:
        parts += felt_sentences(advice.felt)
    return [sentence for sentence in parts if sentence]


def warnings_of(advice: Advice) -> list[str]:
    """Give the warnings that come before the advice, a sentence each."""
    if math.isinf(advice.noise_scale.high):
        return [BOUNDS_ONLY, *advice.warnings]
    return list(advice.warnings)


def error_name(advice: Advice) -> str:
    """Name the relative error of the advice."""
    return f"MSE/||g||^2 at N = {advice.budget}, G = {advice.recommended}"


def _cost_table(advice: Advice, sizes: Container[int]) -> list[str]:
    """Say what other group sizes and estimators need for the same error."""
    costs = []
    for row in advice.rows:
        if row.group_size in sizes and row.group_size != advice.recommended:
            default = " (TRL's default G)" if row.group_size == TRLS_SIZE else ""
            name = f"{display_name('grpo')}, G = {row.group_size}{default}"
            costs.append([f"  {name}", times(row.cost)])
    for alternative in advice.alternatives:
        name = f"{display_name(alternative.estimator)}, G = {alternative.group_size}"
        costs.append([f"  {name}", times(alternative.cost)])
    for single in advice.singles:
        name = f"{single.estimator}, G = {single.group_size}"
        costs.append([f"  {name}", f"{number(single.ratio)} times *"])
    against = f"against G = {advice.recommended} ({100 * advice.level:g}% interval)"
    lines = table(costs, ["Completions for the same error", against], "<<").splitlines()
    if advice.singles:
        lines.append("  * median over single prompts, against GRPO-type at the same G")
    return lines


def _size_tables(advice: Advice) -> Iterator[str]:
    """Put what is felt beside the plain size, where it was measured."""
    if advice.felt:
        yield from felt_table(advice.felt, advice.best, advice.level).splitlines()


def advice_text(advice: Advice, sizes: Sequence[int] = (), width: int = WIDTH) -> str:
    """Say the advice on one screen, with the costs of these group sizes, or of SHOWN.

    Where a built-in check failed, say only that, and the corrections of an engine's
    mismatch.
    """
    mismatch = [*mismatch_lines(advice.mismatch, advice.level, width)]
    if not advice.held:
        warnings = [f"warning: {warning}" for warning in advice.warnings]
        failed = [wrap(text, width) for text in (headline(advice), *warnings)]
        return "".join(f"{line}\n" for line in (*failed, *mismatch))
    size = advice.num_generations
    error = f"{error_name(advice)}: {with_interval(advice.relative_error)}"
    more = f" (more than these {advice.prompts} prompts would bound it)"
    best = f"G* = {best_size(advice)}{more if advice.unbounded else ''}"
    about = [say_regime(advice), f"{best}; {error}", say_level(advice)]
    lines = [
        *(wrap(f"warning: {text}", width) for text in warnings_of(advice)),
        *(wrap(text, width) for text in sentences(advice)),
        *(wrap(text, width, 4) for text in _size_tables(advice)),
        *(wrap(text, width, 4) for text in _cost_table(advice, sizes or SHOWN)),
        *(wrap(text, width) for text in about if text),
        *mismatch,
        "Settings for GRPO-type as measured, up to a constant factor:",
        *(
            wrap(f"  {setting.trainer:<9} {setting.line(size)}", width, SETTING)
            for setting in TRAINER_SETTINGS
        ),
    ]
    return "".join(f"{line}\n" for line in lines)


def answer(advice: Advice) -> Iterator[str]:
    """Say the advice in the few lines that a run ends with."""
    yield headline(advice)
    if not advice.held:
        return
    costs = [
        f"G = {row.group_size} takes {number(row.cost.value)}"
        for row in advice.rows
        if row.group_size in (8, 16) and row.group_size != advice.recommended
    ]
    yield f"instead {', '.join(costs)} times the completions"
    if alternative := best_usable(advice):
        name, cost = display_name(alternative.estimator), times(alternative.cost)
        yield f"{name}, G = {alternative.group_size}, takes {cost}"
    yield f"{error_name(advice)}: {with_interval(advice.relative_error)}"
