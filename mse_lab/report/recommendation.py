"""Recommendation: the advice of a run, which group size and which baseline."""

import math
from collections.abc import Sequence

from mse_lab.answers.advice import BUDGET, TOLERANCE, Advice, advise
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.trainer_settings import TRAINER_SETTINGS
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.report.advice_figure import draw_advice
from mse_lab.report.advice_text import LAW_ONLY
from mse_lab.report.markup import (
    Html,
    article,
    bullets,
    element,
    figure,
    join,
    paragraph,
    table,
)
from mse_lab.report.vector import inline
from mse_lab.report.wording import NONE, interval, number, percent

_INTRODUCTION = (
    "At a fixed number N of completions a step, many prompts with small groups or few "
    "prompts with large ones? With prompts drawn at random the error is (c₁ G + c₂ + "
    "c₃/(G − 1)) / N: prompts differ (c₁), completions of a prompt differ (c₂), and the "
    "group's mean is an imperfect baseline (c₃). It is least at G* = 1 + √(c₃/c₁), "
    "whatever N. Brackets are intervals over prompts. All this is about the gradient at "
    "this checkpoint; it does not see what a training run makes of it."
)

_GRANTED = (
    "A group whose rewards are all equal gives a baseline from the group no signal. "
    "Taken for granted: plain SGD on scores summed over tokens, rewards as they are, "
    "prompts like these. Batch sizes must suit the trainer."
)


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
    return f"at least {best.low:.1f}" if advice.unbounded else interval(best)


def _headline(advice: Advice) -> Html:
    size = element("strong", f"Use groups of {advice.recommended}.")
    if advice.unbounded:
        words = (
            " The interval on c₁ covers zero, so G* has no upper bound on this evidence; "
            f"it is at least {advice.best.low:.1f}. {advice.recommended} is "
            f"the smallest size within {TOLERANCE:.0%} of the best of those below."
        )
    else:
        words = f" The best group size is G* = {interval(advice.best)}."
    return paragraph(size, words, class_="headline")


def _vanilla(advice: Advice) -> str:
    value, low, high = advice.beats_vanilla_from
    if math.isinf(low):
        return "GRPO-type beats vanilla (no baseline) at no group size."
    if math.isinf(value):
        return (
            "GRPO-type does not beat vanilla (no baseline) at any group size; the "
            f"interval reaches from {low:.0f} on to never."
        )
    end = "never" if math.isinf(high) else f"{high:.0f}"
    return (
        f"GRPO-type beats vanilla (no baseline) from G = {value:.0f} on [{low:.0f}, {end}]."
    )


def _saved(share: Estimate, what: str, over: str) -> str:
    if share.value < 0:
        more = Estimate(-share.value, -share.high, -share.low)
        return f"{what} needs {percent(more)} more completions than {over}."
    return f"{what} needs {percent(share)} fewer completions than {over}."


def _noise(advice: Advice) -> str:
    size = advice.recommended
    if math.isinf(advice.noise_scale.high):
        return (
            "How large the error is beside the gradient is unknown, for the population's "
            f"‖g‖² = {interval(advice.gradient2)} is not told from zero; the gradient "
            f"noise scale is at least {number(advice.noise_scale.low)} completions."
        )
    return (
        f"With N = {BUDGET} and G = {size} the error is {interval(advice.relative_error)} "
        f"of the population's ‖g‖²; they are equal at {interval(advice.noise_scale)} "
        "completions, the gradient noise scale."
    )


def _points(advice: Advice) -> Html:
    size = advice.recommended
    grpo = f"GRPO-type at G = {size}"
    return bullets(
        [
            _vanilla(advice),
            _saved(advice.vanilla_saving, "Vanilla at its best, G = 1,", grpo),
            _saved(
                advice.best_constant_saving,
                f"The best constant baseline of each prompt, at G = {size},",
                grpo,
            ),
            _noise(advice),
            f"c₁ = {interval(advice.between)}, c₂ = {interval(advice.oracle)}, "
            f"c₃ = {interval(advice.pairs)}.",
        ]
    )


def _sizes(advice: Advice, source: FinishedRun) -> Html:
    origin = f"G = {advice.reference_size:g}" if advice.unbounded else "G*"
    rows = [
        [
            join(str(row.group_size), *_mark(row.group_size == advice.recommended)),
            percent_cell(row.more_samples),
            percent_cell(row.silent_share),
        ]
        for row in advice.rows
    ]
    head = ("G", f"More completions than {origin}", "Groups without signal")
    return table(f"Group sizes, {source.name}", head, rows)


def _mark(recommended: bool) -> list[Html]:
    return [element("span", " ◂ use", class_="mark")] if recommended else []


def percent_cell(estimate: Estimate | None) -> Html:
    """Set a share in percent above its interval."""
    if estimate is None:
        return join(NONE)
    value, _, around = percent(estimate).partition(" ")
    return join(value, element("small", around)) if around else join(value)


def _kinds(advice: Advice, source: FinishedRun) -> Html:
    rows = [[kind.name, *(percent_cell(one) for one in kind[1:])] for kind in advice.kinds]
    head = ("Module", "c₂, completions", "‖W‖², scores", "c₃, baseline")
    whole = table(f"Where the noise sits, {source.name}", head, rows)
    return join(element("h4", "Where the noise sits"), whole)


def _trainers(size: int) -> Html:
    items = [
        join(f"{one.trainer}: ", element("code", one.at(size))) for one in TRAINER_SETTINGS
    ]
    return join(element("h4", "In a trainer's words"), bullets(items))


def _one_run(source: FinishedRun, advice: Advice | str) -> Html:
    key = f"advice-{source.key}"
    if isinstance(advice, str):
        return article(source.name, paragraph(f"No advice: {advice}."), key=key)
    alt = (
        f"MSE against group size at {BUDGET} completions, {source.name}; "
        f"G* {best_size(advice)}"
    )
    drawing = figure(
        inline(lambda path: draw_advice(advice, path), f"advice-{source.key}", alt),
        f"{source.name}: MSE at N = {BUDGET} completions; grey is the interval of G*.",
    )
    beside = element("div", _kinds(advice, source), _trainers(advice.recommended))
    return article(
        source.name,
        _headline(advice),
        *([paragraph(LAW_ONLY, class_="note")] if advice.law_only else []),
        element("div", drawing, _points(advice), class_="row"),
        element("div", _sizes(advice, source), beside, class_="row"),
        key=key,
    )


def recommendation_section(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> list[Html]:
    """Show the advice of every run."""
    return [
        paragraph(_INTRODUCTION),
        *(_one_run(source, one) for source, one in zip(sources, advices, strict=True)),
        paragraph(_GRANTED, class_="note"),
    ]
