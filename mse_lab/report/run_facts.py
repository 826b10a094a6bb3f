"""Facts of the runs side by side: the overview, checks, where and how they were made."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mse_lab.answers.advice import Advice
from mse_lab.answers.claim import Claim
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.probe.probe_files import flatten
from mse_lab.report.advice_report import best_size
from mse_lab.words import NONE, duration, in_units, number

# Facts by name, told of each run in its turn.
Facts = dict[str, list[str]]


def _counted(claims: Sequence[Claim], run: str) -> str:
    """Count the verdicts on whole statements about one run."""
    found = Counter(
        one.verdict for one in claims if one.runs == (run,) and one.group_size is None
    )
    return f"{found['holds']} hold, {found['fails']} fail, {found['undecided']} undecided"


def _facts(
    source: FinishedRun, claims: Sequence[Claim], advice: Advice | str
) -> dict[str, str]:
    pools, probe = source.pools, source.probe
    by = {"MSE by": "exact law only, no replicates"} if source.law_only else {}
    return {
        "Model": probe.model.path,
        "Prompts": f"{pools.prompts}",
        "Accuracy": f"{pools.value_P.mean():.2f}",
        "Completions a prompt": f"{probe.pool.reference} + {probe.pool.replicate}",
        **by,
        "‖g‖² of the aggregate": number(pools.aggregate_norm2),
        "Best group size G*": best_size(advice),
        "Use groups of": NONE if isinstance(advice, str) else str(advice.recommended),
        "The paper's statements": _counted(claims, source.name),
    }


def _side_by_side(columns: Sequence[Mapping[str, str]]) -> Facts:
    """Turn each run's facts by name; one that a run has not is left empty."""
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: [column.get(name, "") for column in columns] for name in names}


def show_overview(
    sources: Sequence[FinishedRun], claims: Sequence[Claim], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Set the runs side by side, before any detail: `facts`."""
    columns = [
        _facts(source, claims, advice)
        for source, advice in zip(sources, advices, strict=True)
    ]
    return {"facts": _side_by_side(columns)}


def show_checks(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show the built-in checks: `checks`, (name, meaning) -> each run's, or None."""
    columns = [{(one.name, one.meaning): one for one in run.checks} for run in sources]
    names = dict.fromkeys(name for column in columns for name in column)
    return {"checks": {name: [column.get(name) for column in columns] for name in names}}


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_UNITS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "seconds": ("time", duration),
    "peak_memory_bytes": ("peak memory", in_units),
    "peak_device_memory_bytes": ("peak device memory", in_units),
}


def _told(values: Mapping[str, Any]) -> dict[str, str]:
    """Write named values in words."""
    told = {}
    for key, value in flatten(values).items():
        name, write = _UNITS.get(key, (key.replace("_", " "), _text))
        told[name] = NONE if value is None else write(value)
    return told


def show_environment(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show where every run was made, `places`, and its `settings`."""
    settings = [source.probe.model_dump(mode="json") for source in sources]
    return {
        "places": _side_by_side([_told(source.environment) for source in sources]),
        "settings": _side_by_side([_told(one) for one in settings]),
    }
