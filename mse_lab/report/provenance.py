"""Provenance: built-in checks, where and how the runs were made."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.probe.probe_files import flatten
from mse_lab.report.markup import (
    Html,
    article,
    breakable,
    bullets,
    element,
    join,
    paragraph,
    side_by_side,
)
from mse_lab.report.wording import NONE, number, typeset
from mse_lab.results.checks import Check

_CHECKS = (
    "What would make every number of a run wrong is tested in the run itself; a figure "
    "must stay within its bound."
)

_ENVIRONMENT = (
    "Where the runs were made, and every setting that they were made with. The settings, "
    "in config.yaml beside each result, reproduce the run."
)


def shown(held: bool) -> Html:
    """Write an outcome by sign and word."""
    words, kind = ("✓ holds", "holds") if held else ("✗ FAILED", "fails")
    return element("span", words, class_=f"verdict {kind}")


def _outcome(check: Check) -> Html:
    if check.ok is None:
        return element("span", "– not made", class_="verdict undecided")
    relation = "≤" if check.ok else ">"
    figures = f"{number(check.figure)} {relation} {check.bound:.3g}"
    return join(shown(check.ok), element("small", figures))


def _checks_of(source: FinishedRun) -> dict[str, str]:
    return {
        join(check.name, element("small", typeset(check.meaning))): _outcome(check)
        for check in source.checks
    }


def checks_section(sources: Sequence[FinishedRun]) -> list[Html]:
    """Show the built-in checks and the warnings of every run."""
    columns = [_checks_of(source) for source in sources]
    names = [source.name for source in sources]
    warned = [
        article(source.name, bullets(source.warnings), key=f"warnings-{source.key}")
        for source in sources
        if source.warnings
    ]
    table = side_by_side("Built-in checks", columns, names, merge=False)
    return [paragraph(_CHECKS), table, *warned]


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value)


def _bytes(value: Any) -> str:
    return NONE if value is None else f"{float(value) / 2**30:.2f} GiB"


def _seconds(value: Any) -> str:
    return NONE if value is None else f"{float(value):,.0f} s"


_UNITS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "seconds": ("time", _seconds),
    "peak_memory_bytes": ("peak memory", _bytes),
    "peak_device_memory_bytes": ("peak device memory", _bytes),
}


def _told(values: Mapping[str, Any]) -> dict[str, str]:
    """Write named values in words."""
    told: dict[str, str] = {}
    for key, value in flatten(values).items():
        head, write = _UNITS.get(key, (key.replace("_", " "), _text))
        told[head] = breakable(write(value))
    return told


def environment_section(sources: Sequence[FinishedRun]) -> list[Html]:
    """Show where every run was made, and its settings."""
    names = [source.name for source in sources]
    places = [_told(source.environment) for source in sources]
    settings = [_told(source.probe.model_dump(mode="json")) for source in sources]
    summary = element("summary", "All settings")
    return [
        paragraph(_ENVIRONMENT),
        side_by_side("Environments", places, names, merge=True),
        element("details", summary, side_by_side("Settings", settings, names, merge=True)),
    ]
