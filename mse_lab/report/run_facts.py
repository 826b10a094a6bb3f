"""Facts of the runs side by side: the overview, checks, where and how they were made."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mse_lab.answers.advice import Advice
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.formatting import NONE, number, percent, with_interval
from mse_lab.probe.probe_files import flatten
from mse_lab.report.layout import Table
from mse_lab.report.typesetting import typeset
from mse_lab.results.checks import Check


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
