"""Facts of the runs side by side: the overview, checks, where and how they were made."""

from collections.abc import Mapping, Sequence
from typing import Any

from mse_lab.answers.advice import Advice
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.formatting import NONE, byte_size, duration, number, percent, with_interval
from mse_lab.probe.probe_files import flatten
from mse_lab.results.checks import Check

# Facts by name, told of each run in its turn.
Facts = dict[str, list[str]]


def _signal(advice: Advice | str) -> dict[str, str]:
    """Say how strong the signal of a step is at the recommended group size."""
    if isinstance(advice, str):
        return {}
    size = advice.recommended
    share = next(row.zero_variance for row in advice.rows if row.group_size == size)
    return {
        "Group size": f"{size}",
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
        "Completions a prompt": f"{probe.pool.reference} + {probe.pool.replicate}",
        "Accuracy": f"{pools.value_P.mean():.2f}",
        **by,
        **_signal(advice),
        "‖g‖² of these prompts": number(pools.aggregate_norm2),
    }


def _side_by_side(columns: Sequence[Mapping[str, str]]) -> Facts:
    """Turn each run's facts by name; one that a run has not is left empty."""
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: [column.get(name, "") for column in columns] for name in names}


def show_overview(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Set the runs side by side: `facts`, and `checks` as `line_up` has them."""
    facts = [_facts(*one) for one in zip(sources, advices, strict=True)]
    return {"facts": _side_by_side(facts), "checks": line_up(sources)}


def line_up(sources: Sequence[FinishedRun]) -> dict[tuple[str, str], list[Check | None]]:
    """Line the built-in checks up: (name, meaning) -> each run's, or None."""
    columns = [{(one.name, one.meaning): one for one in run.checks} for run in sources]
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: [column.get(name) for column in columns] for name in names}


def _written(key: str, value: Any) -> str:
    if value is None:
        return NONE
    if key == "seconds":
        return duration(value)
    if key.endswith("_bytes"):
        return byte_size(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _told(values: Mapping[str, Any]) -> dict[str, str]:
    """Write named values in words; units belong to the values."""
    names = {"seconds": "time"}
    return {
        names.get(key, key).removesuffix("_bytes").replace("_", " "): _written(key, value)
        for key, value in flatten(values).items()
    }


def show_environment(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show where every run was made, `places`, and its `settings`."""
    settings = [source.probe.model_dump(mode="json") for source in sources]
    return {
        "places": _side_by_side([_told(source.environment) for source in sources]),
        "settings": _side_by_side([_told(one) for one in settings]),
    }
