"""The plan: its rows and remarks, as a table for the terminal and as JSON."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mse_lab.run.plan_widths import Widths

UNITS = ((1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"))
BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))

MINUTE, HOUR, DAY = 60, 3600, 86400

# Of the terminal.
COLUMNS = 92


@dataclass(frozen=True)
class Row:
    """One stage of a run.

    Attributes:
        stage: What is done.
        completions: Of how many completions; 0 where none are.
        tokens: Tokens that the model reads, padding included; what is shared once, be it
            the prompt, a beginning or a whole completion.
        operations: Floating-point operations in matrix products and attention.
        memory: Bytes at its peak; None where it is small beside the others.
        seconds: Time.
    """

    stage: str
    completions: float
    tokens: float
    operations: float
    memory: int | None
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a run of a probe will take.

    Attributes:
        probe: The probe's name.
        heading: What is measured, and on what, a line each.
        rows: The stages.
        factor: By which factor the time may be off, either way.
        longest: Seconds if every completion ran to the limit.
        remarks: Where the numbers come from, memory and disk, a line each.
        widths: How wide the intervals will be; None where nothing tells.
        widths_from: What tells them.
        warnings: What should be changed before the run.
    """

    probe: str
    heading: list[str]
    rows: list[Row]
    factor: float
    longest: float
    remarks: list[str]
    widths: Widths | None
    widths_from: str
    warnings: list[str]

    @property
    def total(self) -> Row:
        """All stages together; the memory is the largest of any."""
        return Row(
            stage="total",
            completions=max(row.completions for row in self.rows),
            tokens=sum(row.tokens for row in self.rows),
            operations=sum(row.operations for row in self.rows),
            memory=max(row.memory or 0 for row in self.rows),
            seconds=sum(row.seconds for row in self.rows),
        )

    def as_dict(self) -> dict[str, Any]:
        """Give the content of the JSON."""
        return {
            "probe": self.probe,
            "rows": [asdict(row) for row in self.rows],
            "total": asdict(self.total),
            "seconds_low": self.total.seconds / self.factor,
            "seconds_high": self.total.seconds * self.factor,
            "seconds_if_all_are_longest": self.longest,
            "heading": self.heading,
            "remarks": self.remarks,
            "half_widths": None if self.widths is None else asdict(self.widths),
            "half_widths_from": self.widths_from,
            "warnings": self.warnings,
        }


def duration(seconds: float) -> str:
    """Write a time with two digits or two units.

    >>> [duration(seconds) for seconds in (0.04, 7.24, 42, 200, 12000, 190000)]
    ['0.04 s', '7.2 s', '42 s', '3 min 20 s', '3 h 20 min', '2 d 5 h']
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for unit, name, part, small in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            count, rest = divmod(round(whole / part) * part, unit)
            return f"{count} {name} {rest // part} {small}"
    return f"{whole} s"


def scaled(number: float, units: Sequence[tuple[float, str]]) -> str:
    """Write a number with a unit, to two or three digits.

    >>> scaled(71.4e9, BYTES), scaled(512, BYTES)
    ('71 GB', '0.51 kB')
    """
    size, name = next(((size, name) for size, name in units if number >= size), units[-1])
    value = number / size
    return f"{value:.0f} {name}" if value >= 10 else f"{value:.2g} {name}"


def percent(share: float) -> str:
    """Write a share.

    >>> percent(0.1234), percent(0.0312)
    ('12%', '3.1%')
    """
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.2g}%"


def _count(number: float) -> str:
    return f"{round(number):,}" if number else ""


def _decimals(number: float) -> str:
    """Write about three digits, without an exponent."""
    if not number:
        return ""
    if number < 0.01:
        return "<0.01"
    digits = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:,.{digits}f}"


def _cells(row: Row, unit: float, whole: float) -> list[str]:
    return [
        row.stage,
        _count(row.completions),
        _count(row.tokens),
        _decimals(row.operations / unit),
        scaled(row.memory, BYTES) if row.memory else "",
        duration(row.seconds),
        f"{row.seconds / whole:.0%}" if whole else "",
    ]


def table(plan: Plan) -> str:
    """Lay the rows out, the stages to the left and numbers to the right."""
    total = plan.total
    unit, name = next(
        ((size, name) for size, name in UNITS if total.operations >= size), UNITS[-1]
    )
    head = ["", "completions", "tokens", name, "memory", "time", "share"]
    body = [_cells(row, unit, total.seconds) for row in (*plan.rows, total)]
    widths = [max(len(row[place]) for row in (head, *body)) for place in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row, widths, strict=True)][1:]
        return "  ".join(cells).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(head), rule, *map(line, body[:-1]), rule, line(body[-1])])


def _widths_lines(plan: Plan) -> list[str]:
    widths = plan.widths
    if widths is None:
        return []
    if not widths.known:
        unknown = (
            f"intervals: the completions behind {plan.widths_from} do not tell how wide: "
            "they are single completions, or each prompt's have one reward"
        )
        return [_wrapped(unknown)]
    laws = ", ".join(f"{name} {percent(width)}" for name, width in widths.law.items())
    level = f"{100 * widths.level:g}%"
    heads = "".join(f"{f'G = {group}':>8}" for group in widths.group_sizes)
    rows = [
        f"  {name:<14}" + "".join(f"{percent(width):>8}" for width in row)
        for name, row in widths.mse.items()
    ]
    return [
        f"intervals: half-width of the {level} intervals, relative to the MSE, as expected",
        f"  from {plan.widths_from}",
        *([f"  {'':<14}{heads}", *rows] if rows else []),
        f"  by the exact law, at any G: {laws}",
    ]


def _wrapped(line: str) -> str:
    """Break a line, what follows indented."""
    return textwrap.fill(line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)


def plan_text(plan: Plan) -> str:
    """Say the plan in words, for a terminal."""
    total, factor = plan.total, plan.factor
    low, high = duration(total.seconds / factor), duration(total.seconds * factor)
    time = (
        f"time: within a factor of {factor:.3g}, {low} to {high}; each of N processes on "
        "devices of their own takes an N-th, but for the first row and the last"
    )
    warnings = [f"warning: {warning}" for warning in plan.warnings]
    return "\n".join(
        [
            *plan.heading,
            "",
            table(plan),
            "",
            *map(_wrapped, [time, *plan.remarks]),
            *_widths_lines(plan),
            *map(_wrapped, warnings),
        ]
    )


def plan_json(plans: Sequence[Plan]) -> str:
    """Write plans as JSON, a list."""
    return json.dumps([plan.as_dict() for plan in plans], indent=2, ensure_ascii=False)
