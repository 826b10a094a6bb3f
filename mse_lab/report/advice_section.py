"""The advice on the page: for each run the answer, its figure, and what it rests on."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.errors import InputError
from mse_lab.formatting import with_interval
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.advice_report import (
    HOLDS,
    best_size,
    error_name,
    say_prompts,
    say_regime,
    sentences,
    warnings_of,
)
from mse_lab.report.layout import Table, draw_image, estimate_cell
from mse_lab.report.sampled_report import say_level
from mse_lab.report.verdict_report import display_name, lines_to_type


def advise_source(source: FinishedRun) -> Advice | str:
    """Work out the advice, or say why there is none."""
    if not source.held:
        return "a built-in check FAILED"
    try:
        return advise(source)
    except InputError as error:
        return str(error)


def _price_table(advice: Advice) -> Table:
    priced = [one[1:4] for one in advice.prices if one.whose in ("yours", "same loss")]
    priced += [one[:3] for one in advice.alternatives]
    rows = [
        [f"{display_name(name)}, G\u00a0=\u00a0{size}", estimate_cell(cost)]
        for name, size, cost in priced
    ]
    return Table(["Completions for the same error", "Times yours (first row)"], rows)


def _basis(advice: Advice) -> dict[str, str]:
    constants = {
        "G* = 1 + sqrt(c3/c1) =": advice.best,
        "c1, gradients differ between prompts": advice.c1,
        "c2, completions differ in a prompt": advice.c2,
        "c3, the baseline is the group's mean": advice.c3,
        "The population's ||g||^2 =": advice.gradient2,
        "Gradient noise scale, completions": advice.noise_scale,
        f"{error_name(advice)}:": advice.relative_error,
    }
    return {name: with_interval(value) for name, value in constants.items()}


def _show(source: FinishedRun, advice: Advice | str) -> dict[str, Any]:
    if isinstance(advice, str):
        return {"source": source, "warnings": source.warnings, "why_none": advice}
    alt = (
        f"MSE against group size at {advice.budget} completions, {source.name}; "
        f"G* {best_size(advice)}"
    )
    return {
        "source": source,
        "warnings": warnings_of(advice),
        "why_none": "",
        "advice": advice,
        "image": draw_image(partial(compose_advice, advice), alt),
        "prices": _price_table(advice),
        "sentences": [
            *sentences(advice),
            say_regime(advice),
            say_prompts(advice),
            say_level(advice),
        ],
        "basis": _basis(advice),
        "lines": [line.strip() for line in lines_to_type(advice, 999)],
        "holds": HOLDS,
    }


def show_advice(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Show the advice of every run, `runs`: what is said, or why there is none."""
    return {"runs": [_show(*pair) for pair in zip(sources, advices, strict=True)]}
