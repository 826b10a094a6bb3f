"""Sections of the page: the advice, the ranking, and facts of the runs side by side."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.ranking import Ranked, rank_estimators
from mse_lab.errors import InputError
from mse_lab.estimators import Estimator
from mse_lab.formatting import NONE, number, percent, with_interval
from mse_lab.probe.probe_files import flatten
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
from mse_lab.report.layout import Table, draw_image, estimate_cell, typeset
from mse_lab.report.verdict_report import display_name, lines_to_type, say_level
from mse_lab.results.checks import Check


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


# They know the value V or the baseline b* of each prompt.
_UNREAL = ("oracle", "best-constant")

# Their aim is another objective, so that distance to g is no verdict on them.
_OTHER_OBJECTIVES = ("maxrl", "pass-at-k")

_FIGURES = {"scale_free_mse": "Scale-free MSE", "slope": "Slope", "cosine": "Cosine",
            "bias2": "Bias²", "variance": "Variance", "mse": "Raw MSE"}  # fmt: skip

# What an unbiased estimator has exactly.
_EXACT = {"slope": "1", "cosine": "1", "bias2": "0"}

_NORMS_ONLY = (
    "Norms only: the estimators that have a law are ranked by their laws at the run's "
    "moments, because there are no replicates."
)
_NO_RANKING = (
    "‖g‖² of the aggregate is not measurably positive, so there is no scale-free MSE and "
    "nothing is ranked. More completions in the reference would help."
)


def _marked(estimator: Estimator) -> str:
    unreal = "*" if estimator.name in _UNREAL else ""
    return f"{estimator.name}{unreal}{'' if estimator.group_local else '†'}"


def _cells(row: Ranked, level: float) -> list[str]:
    cells = {name: estimate_cell(row.curve.interval(name, level)) for name in _FIGURES}
    # A cosine near one is less by no more than the slopes' noise, which no interval holds.
    cells["cosine"] = number(float(row.curve.point.cosine))
    cells |= _EXACT if row.estimator.unbiased else {}
    return [_marked(row.estimator), estimate_cell(row.ratio), *cells.values()]


def _leader(rows: Sequence[Ranked]) -> str:
    usable = [
        row
        for row in rows
        if row.estimator.name.partition("(")[0] not in (*_UNREAL, *_OTHER_OBJECTIVES)
    ]
    if not usable:
        return ""
    first, *_ = usable
    return (
        f"Of those for the mean reward that training could use, {first.estimator.name} "
        f"comes first at {with_interval(first.ratio)} of the oracle's scale-free MSE."
    )


def _stand(source: FinishedRun, size: int) -> dict[str, Any]:
    ranked, left_out = rank_estimators(source, size)
    known = [row for row in ranked if not math.isnan(row.ratio.low)]
    warnings = [_NORMS_ONLY] if source.law_only else []
    if not known:
        warnings.append(_NO_RANKING)
    heads = ["Estimator", "Ratio to the oracle", *_FIGURES.values()]
    return {
        "source": source,
        "title": f"{source.name}, G = {size}",
        "warnings": warnings,
        "leader": _leader(known),
        "ranked": Table(heads, [_cells(row, source.level) for row in ranked]),
        "left_out": left_out,
    }


def show_ranking(sources: Sequence[FinishedRun], sizes: Iterable[int]) -> dict[str, Any]:
    """Rank every run's estimators, each at a size: `standings`."""
    return {"standings": [_stand(*pair) for pair in zip(sources, sizes, strict=True)]}


def _signal(advice: Advice | str) -> dict[str, str]:
    if isinstance(advice, str):
        return {}
    share = advice.row(advice.recommended).zero_variance
    return {
        "Group size": f"{advice.recommended}",
        f"MSE / ‖g‖² at {advice.budget:,} completions": with_interval(
            advice.relative_error
        ),
        "Completions at which that is one": with_interval(advice.noise_scale),
        "Zero-variance groups": percent(share) if share else NONE,
    }


def _facts(source: FinishedRun, advice: Advice | str) -> dict[str, str]:
    pools, probe = source.pools, source.probe
    by = {"MSE by": "exact law only, no replicates"} if source.law_only else {}
    return {
        "Model": probe.model.path,
        "Prompts": f"{pools.prompts}",
        "Completions per prompt": f"{probe.pool.reference} + {probe.pool.replicate}",
        "Accuracy": f"{pools.value_P.mean():.2f}",
        **by,
        **_signal(advice),
        "‖g‖² of these prompts": typeset(number(pools.aggregate_norm2)),
        "Built-in checks": _outcome(source.held),
    }


def _side_by_side(
    sources: Sequence[FinishedRun], columns: Sequence[Mapping[str, str]]
) -> Table:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    return Table(["", *(source.name for source in sources)], rows)


def _outcome(ok: bool | None) -> str:
    if ok is None:
        return "– not made"
    word = "✓ holds" if ok else "✗ FAILED"
    return Markup('<span class="{}">{}</span>').format("holds" if ok else "fails", word)


def _describe_check(check: Check) -> str:
    outcome = _outcome(check.ok)
    if check.ok is None:
        return outcome
    sign = "≤" if check.ok else ">"
    figures = typeset(f"{number(check.figure)} {sign} {number(check.bound)}")
    return Markup("{}<small>{}</small>").format(outcome, figures)


def _checks(source: FinishedRun) -> dict[str, str]:
    name = Markup("{}<small>{}</small>")
    return {
        name.format(check.name, typeset(check.meaning)): _describe_check(check)
        for check in source.checks
    }


def show_overview(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Set the runs side by side: the tables `facts` and `checks`."""
    pairs = zip(sources, advices, strict=True)
    return {
        "facts": _side_by_side(sources, [_facts(*pair) for pair in pairs]),
        "checks": _side_by_side(sources, [_checks(source) for source in sources]),
    }


def show_environment(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show where every run was made, `environments`, and its `settings`."""

    def side_by_side(values: Sequence[Mapping[str, Any]]) -> Table:
        columns = [
            {
                key: NONE if value is None else str(value)
                for key, value in flatten(run).items()
            }
            for run in values
        ]
        return _side_by_side(sources, columns)

    return {
        "environments": side_by_side([source.environment for source in sources]),
        "settings": side_by_side([run.probe.model_dump(mode="json") for run in sources]),
    }
