"""Formatting: numbers, intervals, shares, times, sizes and tables as people read them.

An interval is (value, low, high). Screens, files and the page show it as `1.08 (1.06 to
1.11)`, with the digits that its width justifies.
"""

import math
import re
import textwrap
from collections.abc import Sequence

Interval = tuple[float, float, float]

NONE = "–"

WIDTH = 80  # Columns of a screen.

BYTES = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Replacements, made in this order, each in the result of those before.
_TYPESET = {
    r"\|\|(.+?)\|\|\^2": r"‖\1‖²",
    "Sigma_oracle": "Σ(oracle)",
    r"sqrt\(": "√(",
    "zeta": "ζ",
    "_i": "ᵢ",
    "_j": "ⱼ",
    "G-1": "G − 1",
    " - ": " − ",
    " x ": " × ",
    "->": "→",
    ">=": "≥",
    "c1": "c₁",
    "c2": "c₂",
    "c3": "c₃",
    r"\binf\b": "∞",
    r"\bnan\b": NONE,
}
_EXPONENT = re.compile(r"(?<=\d)e([+-]\d+)\b")


def typeset(text: str) -> str:
    """Write the formulas of a plain text as a book would.

    >>> typeset("||W||^2 >= zeta, 1.2e-16")
    '‖W‖² ≥ ζ, 1.2 × 10⁻¹⁶'
    """
    for pattern, replacement in _TYPESET.items():
        text = re.sub(pattern, replacement, text)
    return _EXPONENT.sub(
        lambda match: f" × 10{str(int(match[1])).translate(_SUPERSCRIPTS)}", text
    )


def power_of_ten(value: float) -> int:
    """Give the exponent of a very large or very small number; 0 for others."""
    size = abs(value)
    if not math.isfinite(size) or size == 0 or 1e-3 <= size < 1e6:
        return 0
    return math.floor(math.log10(size))


def _fixed(value: float, decimals: int, power: int = 0) -> str:
    """Write a number with this many decimals, in units of a power of ten."""
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    # Adding zero turns -0.0 into 0.0.
    digits = f"{round(value / 10.0**power, decimals) + 0.0:,.{decimals}f}"
    return f"{digits}e{power:+03d}" if power else digits


def _decimals(size: float, digits: int) -> int:
    """Count the decimals that show this many significant digits of a number."""
    if not math.isfinite(size) or size == 0:
        return 0
    return max(digits - 1 - math.floor(math.log10(abs(size))), 0)


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with this many significant digits; a whole one without decimals.

    None and NaN become a dash.

    >>> number(0.12345), number(12345.6), number(1234567.0), number(4.0), number(math.nan)
    ('0.123', '12,346', '1.23e+06', '4', '–')
    """
    if value is None or math.isnan(value):
        return NONE
    power = power_of_ten(value)
    if power == 0 and float(value).is_integer():
        digits = 0
    return _fixed(value, _decimals(value / 10.0**power, digits), power)


def parts(interval: Interval, digits: int = 2) -> tuple[str, str]:
    """Write a number, and its interval if it has one: value, low and high.

    `digits` are shown of the width, which is twice the distance to the nearer end. A number
    has at most three, unless its ends would look the same.
    """
    value, low, high = interval
    if math.isnan(value) or math.isnan(low) or math.isnan(high) or low == math.inf:
        return number(value), ""
    if math.isinf(high):
        if math.isinf(value):
            return f"at least {number(low)}", ""
        return number(value), f"({number(low)} or more)"
    largest = max(map(abs, interval))
    # An end far above the value does not decide the unit of both.
    power = power_of_ten(largest) if largest < 1e3 * abs(value) or largest < 1 else 0
    unit = 10.0**power
    # An end that differs from the value by rounding alone says nothing about the width.
    distances = [abs(end - value) / unit for end in (low, high)]
    rounding = 1e-9 * largest / unit
    nearer = min((width for width in distances if width > rounding), default=0.0)
    if nearer == 0:
        return number(value), ""
    width = 2 * nearer
    needed = max(_decimals(largest / unit, 3), _decimals(width, 1))
    decimals = min(_decimals(width, digits), needed)
    shown = [_fixed(end, decimals, power) for end in interval]
    return shown[0], f"({shown[1]} to {shown[2]})"


def with_interval(interval: Interval) -> str:
    """Write a number with its interval.

    >>> with_interval((1.0812, 1.0634, 1.1101)), with_interval((3.1, 2.0, math.inf))
    ('1.08 (1.06 to 1.11)', '3.10 (2 or more)')
    """
    return "unknown" if math.isnan(interval[0]) else " ".join(parts(interval)).rstrip()


def percent_parts(interval: Interval) -> tuple[str, str]:
    """Write a share in percent, and its interval if it has one."""
    value, low, high = interval
    shown, ends = parts((100 * value, 100 * low, 100 * high), digits=1)
    return (shown if shown == NONE else f"{shown}%"), ends


def percent(interval: Interval) -> str:
    """Write a share in percent with its interval.

    >>> percent((0.62, 0.57, 0.69))
    '62% (57 to 69)'
    """
    if math.isnan(interval[0]):
        return "unknown"
    return " ".join(percent_parts(interval)).rstrip()


def times(interval: Interval) -> str:
    """Write by which factor a quantity is larger, with its interval.

    >>> times((1.68, 1.5, 2.04)), times((math.inf, 4.0, math.inf))
    ('1.68 times (1.50 to 2.04)', 'at least 4 times')
    """
    if math.isnan(interval[0]):
        return "unknown"
    if interval[1] == math.inf:
        return "infinitely many times"
    value, ends = parts(interval)
    return f"{value} times {ends}".rstrip()


def share(value: float, digits: int = 2) -> str:
    """Write a share without an interval in percent.

    >>> share(0.1234), share(0.0312), share(0.0312, 3), share(1.0)
    ('12%', '3.1%', '3.12%', '100%')
    """
    shown = 100 * value
    whole = abs(shown) >= 10**digits - 0.5
    return f"{shown:.0f}%" if whole else f"{shown:.{digits}g}%"


def duration(seconds: float) -> str:
    """Write a time with two digits, or in two units.

    >>> [duration(seconds) for seconds in (0.04, 7.24, 42, 200, 12000, 190000)]
    ['0.04 s', '7.2 s', '42 s', '3 min 20 s', '3 h 20 min', '2 d 5 h']
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    units = (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")
    for unit, name, part, small in units:
        if whole >= unit:
            count, rest = divmod(round(whole / part) * part, unit)
            return f"{count} {name} {rest // part} {small}"
    return f"{whole} s"


def byte_size(count: float) -> str:
    """Write a number of bytes in the unit that leaves two or three digits.

    >>> byte_size(71.4e9), byte_size(512)
    ('71 GB', '0.51 kB')
    """
    name = next((name for name, size in BYTES.items() if count >= size), "kB")
    scaled = count / BYTES[name]
    return f"{scaled:.0f} {name}" if scaled >= 10 else f"{scaled:.2g} {name}"


def wrap(text: str, width: int = WIDTH, indent: int = 0) -> str:
    """Break a text into lines for a terminal at its spaces; no word is cut.

    >>> print(wrap("raise pool.replicate, or take more prompts", 22, indent=2))
    raise pool.replicate,
      or take more prompts
    """
    return textwrap.fill(
        text,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rows: Sequence[Sequence[str]], heads: Sequence[str] = (), align: str = "") -> str:
    """Lay out rows of texts, all of one length, as aligned columns, two spaces apart.

    `align` has `<` or `>` for each column, to the left or to the right; by default the
    first column is aligned to the left, the others to the right.

    >>> print(table([["rloo", "4"], ["vanilla", "16"]], ["estimator", "G"]))
    estimator   G
    rloo        4
    vanilla    16
    """
    lines = [heads, *rows] if heads else list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = align or "<" + ">" * (len(widths) - 1)
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}"
            for cell, side, width in zip(line, sides, widths, strict=True)
        ).rstrip()
        for line in lines
    )
