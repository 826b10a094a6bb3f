"""The advice in words, the verdict first: a screen, the last lines of a run, a section."""

import math
from collections.abc import Iterator

from mse_lab.answers.advice import Advice
from mse_lab.formatting import WIDTH, number, with_interval, wrap
from mse_lab.report.verdict_report import (
    lines_to_type,
    price_table,
    say_level,
    say_setting,
    say_stopped,
    verdict_sentence,
)

BOUNDS_ONLY = (
    "||g||^2 over random prompts is not significantly different from zero: group sizes can "
    "be compared without it, errors relative to it and biased estimators cannot."
)

CAVEAT = (
    "This minimises gradient error. Where the reward ignores the wording, training may "
    "prefer a smaller G."
)

HOLDS = (
    "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores "
    "summed over tokens, for rewards and prompts like these. Trainers add batch rules."
)


def headline(advice: Advice) -> str:
    """Say in a sentence or two what to do, and with which confidence."""
    if not advice.held:
        return "No advice: a built-in check of this run FAILED; checks.json says which."
    return verdict_sentence(advice)


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
    pays = f"seems to pay on {regime.vanilla_worse} of {regime.prompts} prompts"
    rho = f"; median rho {number(regime.median_rho)}" if regime.binary else ""
    return f"Taken singly, GRPO-type's baseline {pays}{rho}."


def sentences(advice: Advice) -> list[str]:
    """Say what to do and what it rests on, the verdict first."""
    parts = [headline(advice), say_setting(advice), say_stopped(advice), CAVEAT]
    return [sentence for sentence in parts if sentence]


def warnings_of(advice: Advice) -> list[str]:
    """Give the warnings that come before the advice, a sentence each."""
    if math.isinf(advice.noise_scale.high):
        return [BOUNDS_ONLY, *advice.warnings]
    return list(advice.warnings)


def error_name(advice: Advice) -> str:
    """Name the relative error of the advice."""
    return f"MSE/||g||^2 at N = {advice.budget}, G = {advice.recommended}"


def advice_text(advice: Advice, width: int = WIDTH) -> str:
    """Say the advice on one screen.

    Where a built-in check failed, say only that.
    """
    if not advice.held:
        warnings = [f"warning: {warning}" for warning in advice.warnings]
        failed = [wrap(text, width) for text in (headline(advice), *warnings)]
        return "".join(f"{line}\n" for line in failed)
    error = f"{error_name(advice)}: {with_interval(advice.relative_error)}"
    more = f" (more than these {advice.prompts} prompts would bound it)"
    best = f"G* = {best_size(advice)}{more if advice.unbounded else ''}"
    about = [say_regime(advice), f"{best}; {error}", say_level(advice)]
    lines = [
        *(wrap(f"warning: {text}", width) for text in warnings_of(advice)),
        *(wrap(text, width) for text in sentences(advice)),
        *(wrap(text, width, 4) for text in price_table(advice)),
        *lines_to_type(advice, width),
        *(wrap(text, width) for text in about if text),
    ]
    return "".join(f"{line}\n" for line in lines)


def answer(advice: Advice) -> Iterator[str]:
    """Say the advice in the few lines that a run ends with."""
    yield headline(advice)
    if not advice.held:
        return
    yield say_setting(advice)
    yield from price_table(advice)
    yield f"{error_name(advice)}: {with_interval(advice.relative_error)}"
