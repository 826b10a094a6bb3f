"""The advice of a run, written: files beside the run, and its section of the page."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from mse_lab.answers.advice import BUDGET, CURVE_SIZES, CURVES, TOLERANCE, Advice, advise
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.trainer_settings import TRAINER_SETTINGS
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.report.advice_figure import compose_advice, draw_advice
from mse_lab.report.inline_svg import inline
from mse_lab.report.layout import lay_out
from mse_lab.results.files import write_table, write_text
from mse_lab.results.records import Record
from mse_lab.results.tables import columns_of
from mse_lab.words import NONE, plain_with_interval, with_interval

# Said of runs with norms only.
LAW_ONLY = "Norms only: by the exact law, which no replicates of this run confirm."

BOUNDS_ONLY = (
    "The population's ||g||^2 is not told from zero, for its interval covers zero: only "
    "bounds follow on what is relative to it."
)

HOLDS = (
    "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores "
    "summed over tokens, for rewards and prompts like these. Trainers add batch rules."
)


def _best(advice: Advice) -> str:
    size = advice.recommended
    if not advice.unbounded:
        best = plain_with_interval(advice.best)
        return f"Best group size of GRPO-type: G* = 1 + sqrt(c3/c1) = {best}; use {size}."
    return (
        "Best group size of GRPO-type: G* has no upper bound on this evidence, for the "
        f"interval on c1 covers zero; it is at least {advice.best.low:.1f}. More than "
        f"these {advice.prompts} prompts would settle it. Until then use {size}: of the "
        f"sizes below the smallest within {TOLERANCE:.0%} of the best."
    )


def _beats_vanilla(advice: Advice) -> str:
    value, low, high = advice.beats_vanilla_from
    if math.isinf(low):
        return "GRPO-type never beats vanilla (no baseline) here, whatever the group size."
    beats = "GRPO-type beats vanilla (no baseline)"
    if math.isinf(value):
        return f"{beats} at no G; the interval is from {low:.0f} on, to never."
    last = "never" if math.isinf(high) else f"{high:.0f}"
    return f"{beats} from G = {value:.0f} on ({low:.0f} to {last})."


def _sentences(advice: Advice) -> list[str]:
    said = {
        LAW_ONLY: advice.law_only,
        _best(advice): True,
        _beats_vanilla(advice): True,
        BOUNDS_ONLY: math.isinf(advice.noise_scale.high),
    }
    return [sentence for sentence, applies in said.items() if applies]


def _say(advice: Advice) -> dict[str, Any]:
    """Say the advice in plain words, for the templates of the terminal and of the page."""
    size = advice.recommended
    return {
        "advice": advice,
        "budget": BUDGET,
        "sentences": _sentences(advice),
        "figures": {
            "c1, gradients differ between prompts": advice.between,
            "c2, completions differ in a prompt": advice.oracle,
            "c3, the baseline is the group's mean": advice.pairs,
            "The population's ||g||^2 =": advice.gradient2,
            f"MSE/||g||^2 at G = {size}, N = {BUDGET}": advice.relative_error,
            "Gradient noise scale, completions": advice.noise_scale,
            "The same for the oracle at G = 1": advice.noise_scale_oracle,
        },
        "origin": f"G = {advice.reference_size:g}" if advice.unbounded else "at G*",
        "saved": f"Samples saved, for the same MSE as GRPO-type at G = {size}:",
        "savings": {
            "vanilla at its best, G = 1": advice.vanilla_saving,
            "each prompt's best constant baseline": advice.best_constant_saving,
            "the same over its value V as the baseline": advice.best_constant_over_value,
        },
        "trainers": TRAINER_SETTINGS,
        "holds": HOLDS,
    }


def advice_text(advice: Advice) -> str:
    """Say the advice in words, for a terminal; ends with the trainers' settings."""
    mse = dict(zip(CURVE_SIZES, advice.curves["grpo"], strict=True))
    return lay_out("advice.txt", mse=mse, **_say(advice))


def advice_table(advice: Advice) -> pd.DataFrame:
    """Make `advice.csv`: a row for each group size, its MSE at the budget.

    Columns: `mse` of GRPO-type; `more_samples_percent`, samples for the same MSE above
    those of the reference size; `silent_share`, groups whose rewards are all equal;
    `vanilla_mse`, `oracle_mse` and `best_constant_mse`.
    """
    rows = []
    for size, more, silent in advice.rows:
        at = {name: advice.curves[name][CURVE_SIZES.index(size)] for name in CURVES}
        percents = Estimate(*(100 * end for end in more))
        rows.append(
            {
                "group_size": size,
                "budget": BUDGET,
                **columns_of("mse", at.pop("grpo")),
                **columns_of("more_samples_percent", percents),
                **columns_of("silent_share", silent),
                **{f"{name.replace('-', '_')}_mse": one.value for name, one in at.items()},
            }
        )
    return pd.DataFrame(rows)


def advise_run(folder: Path) -> str:
    """Advise from a run; write `advice.md`, `.csv`, `.png` and `.pdf` beside it.

    Raises:
        InputError: The folder has no pools, or they are too few to advise from.
    """
    record, advice = Record(folder), advise_source(read_run(folder))
    if isinstance(advice, str):
        raise InputError(f"{folder}: {advice}")
    if not record.read_checks().ok:
        failed = "A BUILT-IN CHECK OF THIS RUN FAILED; do not rely on these numbers."
        advice = replace(advice, warning=failed)
    text = advice_text(advice)
    write_text(record.path("advice.md"), f"```text\n{text}```\n")
    write_table(record.path("advice.csv"), advice_table(advice))
    for suffix in (".png", ".pdf"):
        draw_advice(advice, record.path(f"advice{suffix}"))
    return text


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
        f"MSE against group size at {BUDGET} completions, {source.name}; "
        f"G* {best_size(advice)}"
    )
    drawing = inline(partial(compose_advice, advice), f"advice-{source.key}", alt)
    return source, _say(advice), drawing


def show_advice(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Show the advice of every run: `runs`, (run, what is said or why none, drawing)."""
    return {"runs": [_show(*one) for one in zip(sources, advices, strict=True)]}
