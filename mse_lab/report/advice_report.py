"""The advice in words, the answer first: a screen, the last lines of a run, a section."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mse_lab.answers.advice import LARGEST, TOLERANCE, Advice, advise
from mse_lab.answers.alternatives import BOUND, Alternative
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.trainer_settings import CALLED, HOW, TRAINER_SETTINGS
from mse_lab.errors import InputError
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.inline_svg import inline
from mse_lab.report.layout import lay_out
from mse_lab.wording import (
    NONE,
    multiple,
    plain,
    plain_percent,
    plain_with_interval,
    times_with_interval,
    with_interval,
)

BOUNDS_ONLY = (
    "||g||^2 over random prompts is not told from zero: group sizes can be compared "
    "without it, errors relative to it and biased estimators cannot."
)

HOLDS = (
    "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores "
    "summed over tokens, for rewards and prompts like these. Trainers add batch rules."
)

# Group sizes on the screen, beside the recommended one, unless others are asked for.
SHOWN = (8, 16, 32)

# The columns of a terminal, and of the trainers' settings in it.
WIDTH, SETTING = 80, 68

cost_words = times_with_interval


def headline(advice: Advice) -> str:
    """Say in one sentence what to do."""
    if not advice.held:
        return "No advice: a built-in check of this run FAILED; find out why first."
    first, last = advice.near_best
    size, share = advice.recommended, f"{TOLERANCE:.0%}"
    if advice.unbounded:
        return (
            f"Set num_generations to {size}: larger groups save at most {share} of the "
            f"completions, and these {advice.prompts} prompts show none to cost more."
        )
    if first == last:
        return f"Set num_generations to {size}; any other size costs over {share} more."
    return (
        f"Set num_generations to {size}; between {first} and {last} it costs at most "
        f"{share} more completions than the best."
    )


def _how_sure(advice: Advice) -> str:
    """Say what else the best size may be, where that is beyond what the headline says."""
    low, high = advice.best.low, advice.best.high
    if advice.unbounded:
        return (
            f"The best size is at least {low:.1f}, with no upper bound on this evidence; "
            f"more than these {advice.prompts} prompts would settle it."
        )
    first, last = advice.near_best
    if first <= math.ceil(low) and (math.floor(high) <= last or last == LARGEST):
        return ""
    return f"On this evidence the best size may be anything from {low:.1f} to {high:.1f}."


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
    "undecided": "not told from {line}, where a baseline near V does nothing",
}


def say_regime(advice: Advice) -> str:
    """Say on which side of vanilla the run is and why, and how many of its prompts."""
    one = advice.regime
    where, line, half = one.best_baseline, "V/2", one.value / 2
    name, median = "The best constant baseline", ""
    if one.binary:
        where, line, half = one.rho, "(1-V)/(2-V)", one.line
        name = "rho, right over wrong completions' squared score norm,"
        median = f", median rho {plain(one.median_rho)}"
    if math.isnan(where.value):
        return ""
    side = _SIDES[one.side].format(line=f"{line} = {plain(half)}")
    return (
        f"{name} is {plain_with_interval(where)}, {side}; {one.vanilla_worse} of "
        f"{one.prompts} prompts are above{median}. {_beats_vanilla(advice)}"
    )


def called(name: str) -> str:
    """Call an estimator what a reader knows it as."""
    return CALLED.get(name, name)


def best_usable(advice: Advice, *, unbiased: bool = False) -> Alternative | None:
    """Find the cheapest estimator that is shown to beat the group's mean, if any is."""
    usable = (
        one
        for one in advice.alternatives
        if one.estimator != BOUND and one.unbiased >= unbiased
    )
    return next((one for one in usable if one.cost.high < 1), None)


def _have(one: Alternative) -> str:
    """Say what an estimator saves over the group's mean, and how to have it."""
    value, low, high = one.cost
    saved = plain_percent((1 - value, 1 - high, 1 - low))
    how = HOW.get(one.estimator, "by weights that no trainer has among its settings")
    return f"{called(one.estimator)} saves {saved} of the completions: {how}."


def better(advice: Advice) -> str:
    """Say what saves most over the group's mean, and most of what is unbiased."""
    one, unbiased = best_usable(advice), best_usable(advice, unbiased=True)
    if one is None:
        return "No other usable estimator is shown to save completions."
    if unbiased is None:
        return f"Cheapest, and biased: {_have(one)}"
    biased = "" if one == unbiased else f"Cheapest, and biased: {_have(one)} "
    return f"{biased}Cheapest unbiased: {_have(unbiased)}"


def _say(advice: Advice) -> dict[str, Any]:
    """Say the advice in plain words, for the templates of the terminal and of the page."""
    size = advice.recommended
    known = not math.isinf(advice.noise_scale.high)
    return {
        "advice": advice,
        "headline": headline(advice),
        "warnings": [*([] if known else [BOUNDS_ONLY]), *advice.warnings],
        "how_sure": _how_sure(advice),
        "better": better(advice),
        "regime": say_regime(advice),
        "called": called,
        "shown": {*SHOWN, size},
        "error": f"MSE/||g||^2 at N = {advice.budget} completions, G = {size}",
        "figures": {
            "G* = 1 + sqrt(c3/c1) =": advice.best,
            "c1, gradients differ between prompts": advice.between,
            "c2, completions differ in a prompt": advice.oracle,
            "c3, the baseline is the group's mean": advice.pairs,
            "The population's ||g||^2 =": advice.gradient2,
            "Gradient noise scale, completions": advice.noise_scale,
        },
        "trainers": TRAINER_SETTINGS,
        "holds": HOLDS,
    }


def advice_text(advice: Advice, sizes: Sequence[int] = ()) -> str:
    """Say the advice on one screen; with the costs of these group sizes, or of SHOWN."""
    shown = {*(sizes or SHOWN), advice.recommended}
    rows = [row for row in advice.rows if row.group_size in shown]
    return lay_out("advice.txt", rows=rows, width=WIDTH, setting=SETTING, **_say(advice))


def advice_page(advice: Advice, sizes: Sequence[int] = ()) -> str:
    """Say the advice, and what it rests on."""
    return lay_out("advice.md", screen=advice_text(advice, sizes), **_say(advice))


def answer(advice: Advice) -> Iterator[str]:
    """Say what the last lines of a run say."""
    if not advice.held:
        yield headline(advice)
        return
    size, (first, last) = advice.recommended, advice.near_best
    share = f"{TOLERANCE:.0%}"
    near = f"{first} to {last} cost at most {share} more than the best"
    open_ended = f"larger groups save at most {share}, and none is shown to cost more"
    yield f"group size: {size}; {open_ended if advice.unbounded else near}"
    costs = [
        f"G = {row.group_size} takes {multiple(row.cost.value)}"
        for row in advice.rows
        if row.group_size in (8, 16) and row.group_size != size
    ]
    yield f"instead {', '.join(costs)} times the completions"
    if one := best_usable(advice):
        cost = cost_words(one.cost)
        yield f"{called(one.estimator)}, G = {one.group_size}, takes {cost}"
    error = plain_with_interval(advice.relative_error)
    yield f"MSE/||g||^2 at N = {advice.budget}, G = {size}: {error}"


def advise_source(source: FinishedRun) -> Advice | str:
    """Work out the advice, or say why there is none."""
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


def _show(source: FinishedRun, advice: Advice | str) -> tuple[Any, ...]:
    if isinstance(advice, str):
        return source, advice, None
    alt = (
        f"MSE against group size at {advice.budget} completions, {source.name}; "
        f"G* {best_size(advice)}"
    )
    drawing = inline(partial(compose_advice, advice), f"advice-{source.key}", alt)
    return source, _say(advice), drawing


def show_advice(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Show the advice of every run: `runs`, (run, what is said or why none, drawing)."""
    return {"runs": [_show(*one) for one in zip(sources, advices, strict=True)]}
