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
from mse_lab.report.epochs_report import epochs_sentence, epochs_table
from mse_lab.report.felt_report import felt_headline, felt_sentences, felt_table, unfelt
from mse_lab.report.mismatch_report import mismatch_lines
from mse_lab.report.sampled_words import say_stopped

BOUNDS_ONLY = (
    "||g||^2 over random prompts is not significantly different from zero: group sizes can "
    "be compared without it, errors relative to it and biased estimators cannot."
)

HOLDS = (
    "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores "
    "summed over tokens, for rewards and prompts like these. Trainers add batch rules."
)

# Group sizes on the screen, with the recommended one, unless others are asked for.
SHOWN = (8, 16, 32)

# The column in which the trainers' settings begin.
SETTING = 12

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
    if felt := advice.decisive:
        return felt_headline(felt, advice.num_generations, _price(advice))
    few, price = advice.regret > LARGE, _price(advice)
    joint = f"; but {price}" if few else f". {price[0].upper()}{price[1:]}"
    return f"Set num_generations to {advice.recommended}{joint}"


def _price(advice: Advice) -> str:
    """Say what the size of least gradient error costs at most."""
    confidence = f"({advice.level:.0%} confidence)"
    if advice.regret > LARGE:
        return (
            f"{advice.prompts} prompts are too few to tell whether it costs less than "
            f"twice the completions of the best group size {confidence}."
        )
    near = _near(advice)
    return (
        f"it costs {_regret(advice.regret)} more completions than the best group size"
        f"{'; ' * bool(near)}{near} {confidence}."
    )


def best_size(advice: Advice) -> str:
    """Write G*."""
    best = advice.best
    return f"at least {best.low:.1f}" if advice.unbounded else with_interval(best)


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
    regime = advice.regime
    where, line, half = regime.best_baseline, "V/2", regime.value / 2
    name = "The best constant baseline"
    if regime.binary:
        where, line, half = regime.rho, "(1-V)/(2-V)", regime.line
        name = "rho, right over wrong completions' squared score norm,"
    if math.isnan(where.value):
        return ""
    side = _SIDES[regime.side].format(line=f"{line} = {number(half)}")
    return f"{name} is {with_interval(where)}, {side}. {_beats_vanilla(advice)}"


def say_prompts(advice: Advice) -> str:
    """Say on which side of vanilla its prompts are."""
    regime = advice.regime
    above = (
        f"GRPO-type's baseline pays on {regime.vanilla_worse} of {regime.prompts} prompts"
    )
    return (
        f"{above}; median rho {number(regime.median_rho)}."
        if regime.binary
        else f"{above}."
    )


def display_name(name: str) -> str:
    """Give the name of an estimator that a reader knows."""
    return DISPLAY_NAMES.get(name, name)


def best_usable(advice: Advice, *, unbiased: bool = False) -> Alternative | None:
    """Find the cheapest estimator that is shown to beat GRPO-type, if any is."""
    usable = (
        alternative
        for alternative in advice.alternatives
        if alternative.estimator != BOUND and alternative.unbiased >= unbiased
    )
    return next((one for one in usable if one.cost.high < 1), None)


def _needs(alternative: Alternative) -> str:
    """Say what an estimator needs compared with GRPO-type, and by which change."""
    settings = ESTIMATOR_SETTINGS.get(alternative.estimator, NO_TRAINER)
    return (
        f"{display_name(alternative.estimator)} at G = {alternative.group_size} takes "
        f"{times(alternative.cost)} the completions ({settings})."
    )


def better(advice: Advice) -> str:
    """Say what needs the fewest completions, and the fewest of what is unbiased."""
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
    stopped = say_stopped(advice)
    felt = felt_sentences(advice.felt) if advice.felt else []
    if not advice.decisive:
        open_still = advice.felt is None or advice.felt.optimizer != advice.optimizer
        felt = [unfelt(advice.optimizer, measured=not open_still), *felt]
    dealt = [epochs_sentence(advice.epochs)] if advice.epochs else []
    return [headline(advice), *[stopped] * bool(stopped), better(advice), *felt, *dealt]


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
            name = f"{display_name('grpo')}, G = {row.group_size}{default}"
            costs.append([f"  {name}", times(row.cost)])
    for alternative in advice.alternatives:
        costs.append(
            [
                f"  {display_name(alternative.estimator)}, G = {alternative.group_size}",
                times(alternative.cost),
            ]
        )
    for single in advice.singles:
        name = f"  {single.estimator}, G = {single.group_size}"
        costs.append([name, f"{number(single.ratio)} times *"])
    level = f"{100 * advice.level:g}% interval"
    heads = [
        "Completions for the same error",
        f"against G = {advice.recommended} ({level})",
    ]
    lines = table(costs, heads, "<<").splitlines()
    if advice.singles:
        lines.append("  * median over single prompts, against GRPO-type at the same G")
    return lines


def _size_tables(advice: Advice) -> Iterator[str]:
    """Put best sizes side by side: what is felt, and what is best in epochs."""
    if advice.felt:
        yield from felt_table(advice.felt, advice.best, advice.level).splitlines()
    if advice.epochs:
        yield from epochs_table(advice.epochs, advice.level).splitlines()


def advice_text(advice: Advice, sizes: Sequence[int] = (), width: int = WIDTH) -> str:
    """Say the advice on one screen, with the costs of these group sizes, or of SHOWN.

    Where a built-in check failed, nothing but that and corrections of an engine's mismatch.
    """
    mismatch = [*mismatch_lines(advice.mismatch, advice.level, width)]
    if not advice.held:
        warnings = [f"warning: {warning}" for warning in advice.warnings]
        said = [wrap(text, width) for text in (headline(advice), *warnings)]
        return "".join(f"{line}\n" for line in (*said, *mismatch))
    size = advice.num_generations
    error = f"{error_name(advice)}: {with_interval(advice.relative_error)}"
    more = f" (more than these {advice.prompts} prompts would bound it)"
    best = f"G* = {best_size(advice)}{more if advice.unbounded else ''}"
    about = [say_regime(advice), f"{best}; {error}"]
    lines = [
        *(wrap(f"warning: {text}", width) for text in warnings_of(advice)),
        *(wrap(text, width) for text in sentences(advice)),
        *(wrap(text, width, 4) for text in _size_tables(advice)),
        *(wrap(text, width, 4) for text in _cost_table(advice, sizes or SHOWN)),
        *(wrap(text, width) for text in about if text),
        *mismatch,
        "GRPO-type as measured, up to a factor:",
        *(
            wrap(f"  {text.trainer:<9} {text.line(size)}", width, SETTING)
            for text in TRAINER_SETTINGS
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
    if alternative := best_usable(advice):
        name, cost = display_name(alternative.estimator), times(alternative.cost)
        yield f"{name}, G = {alternative.group_size}, takes {cost}"
    yield f"{error_name(advice)}: {with_interval(advice.relative_error)}"
