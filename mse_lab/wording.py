"""Words: numbers, shares, times and sizes as they are written for a reader.

Intervals are (value, low, high). On pages numbers are typeset, and show the digits that
their interval allows; `plain` and what builds on it are for terminals.
"""

import math
import re
import textwrap

Interval = tuple[float, float, float]

NONE = "–"

BYTES = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# In this order: what a pattern leaves the next one sees.
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
    r"\bnan \[nan, nan\]|\bnan\b": NONE,
}
_EXPONENT = re.compile(r"(?<=\d)e([+-]\d+)\b")


def typeset(text: str) -> str:
    """Write the formulas of a plain text as a book would.

    >>> typeset("||W||^2 >= zeta, 1.2e-16")
    '‖W‖² ≥ ζ, 1.2 × 10⁻¹⁶'
    """
    for pattern, set_ in _TYPESET.items():
        text = re.sub(pattern, set_, text)
    return _EXPONENT.sub(lambda found: times(int(found[1])), text)


def power_of_ten(largest: float) -> int:
    """Power of ten to take out of very large and very small numbers; else 0."""
    if not math.isfinite(largest) or largest == 0 or 1e-3 <= largest < 1e6:
        return 0
    return math.floor(math.log10(largest))


def times(power: int) -> str:
    """Write a power of ten as a factor; nothing for 0."""
    return f" × 10{str(power).translate(_SUPERSCRIPTS)}" if power else ""


def _fixed(value: float, decimals: int) -> str:
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    # Adding zero turns -0.0 into 0.0.
    return f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}".replace("-", "−")


def _decimals(size: float, digits: int) -> int:
    """Decimals that show so many significant digits of a number of this size."""
    if not math.isfinite(size) or size == 0:
        return 0
    return digits - 1 - math.floor(math.log10(abs(size)))


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with some significant digits; a dash where there is none.

    >>> number(0.12345), number(1234567.0), number(float("nan"))
    ('0.123', '1.23 × 10⁶', '–')
    """
    if value is None:
        return NONE
    power = power_of_ten(abs(value))
    scaled = value / 10**power
    return _fixed(scaled, _decimals(scaled, digits)) + times(power)


def parts(interval: Interval) -> tuple[str, str]:
    """Write a number, and its interval where it has one.

    They are written to the second digit of the interval's width, four at most.
    """
    value, low, high = interval
    if math.isnan(low) or math.isnan(high) or low == math.inf:
        return number(value), ""
    if math.isclose(low, high, rel_tol=1e-9):
        return f"{value:.4g}", ""
    largest = max((abs(one) for one in interval if math.isfinite(one)), default=0.0)
    power = power_of_ten(largest)
    value, low, high = (one / 10**power for one in interval)
    width = high - low if math.isfinite(high - low) else value
    decimals = min(_decimals(width, 2), _decimals(largest / 10**power, 4))
    shown = [_fixed(one, decimals) for one in (value, low, high)]
    return shown[0] + times(power), f"[{shown[1]}, {shown[2]}]{times(power)}"


def with_interval(interval: Interval) -> str:
    """Write a number with its interval in a line.

    >>> with_interval((0.6234, 0.5666, 0.6852))
    '0.62 [0.57, 0.69]'
    """
    return " ".join(parts(interval)).rstrip()


def percent_parts(interval: Interval) -> tuple[str, str]:
    """Write a share in percent, and its interval where it has one."""
    value, low, high = interval
    if math.isnan(value):
        return NONE, ""
    decimals = min(max(_decimals(100 * (high - low), 1), 0), 2)
    shown = [_fixed(100 * one, decimals) for one in (value, low, high)]
    return f"{shown[0]}%", f"[{shown[1]}, {shown[2]}]"


def percent(interval: Interval) -> str:
    """Write a share in percent with its interval in a line.

    >>> percent((0.62, 0.57, 0.69))
    '62% [57, 69]'
    """
    return " ".join(percent_parts(interval)).rstrip()


def wrap(text: str, width: int = 80, indent: int = 0) -> str:
    """Break a text into lines for a terminal, at spaces alone: nothing of it is cut.

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


def plain(value: float) -> str:
    """Write three digits for a terminal, without an exponent from a thousand on.

    >>> plain(0.12345), plain(12345.6)
    ('0.123', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def plain_with_interval(interval: Interval) -> str:
    """Write a number with its interval for a terminal.

    >>> plain_with_interval((1.2345, 1.0, 1500.0))
    '1.23 (1 to 1,500)'
    """
    value, low, high = map(plain, interval)
    if interval[2] == math.inf:
        return "infinite" if interval[1] == math.inf else f"at least {low}"
    return f"{value} ({low} to {high})"


def plain_percent(interval: Interval) -> str:
    """Write a share in whole percents with its interval for a terminal.

    >>> plain_percent((0.62, 0.57, 0.69))
    '62 % (57 to 69)'
    """
    if math.isnan(interval[0]):
        return "unknown"
    value, low, high = (f"{round(100 * end):,}" for end in interval)
    return f"{value} % ({low} to {high})"


def multiple(value: float) -> str:
    """Write how many times as many, the more digits the nearer it is to as many.

    >>> [multiple(value) for value in (0.534, 1.0, 2.36, 21.6, 1234)]
    ['0.53', '1.00', '2.4', '22', '1,234']
    """
    decimals = 2 if value < 1.995 else 1 if value < 9.95 else 0
    return f"{value:,.{decimals}f}"


def times_with_interval(interval: Interval) -> str:
    """Write how many times as many, with the interval, for a terminal.

    >>> times_with_interval((1.68, 1.5, 2.04)), times_with_interval((3.1, 2.0, math.inf))
    ('1.68 times (1.50 to 2.0)', '3.1 times (2.0 or more)')
    """
    value, low, high = interval
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return f"never (at least {multiple(low)} times)" if math.isfinite(low) else "never"
    last = "or more" if math.isinf(high) else f"to {multiple(high)}"
    return f"{multiple(value)} times ({multiple(low)} {last})"


def share(value: float, digits: int = 2) -> str:
    """Write a share of known digits in percent.

    >>> share(0.1234), share(0.0312), share(0.0312, 3), share(1.0)
    ('12%', '3.1%', '3.12%', '100%')
    """
    found = 100 * value
    whole = abs(found) >= 10**digits - 0.5
    return f"{found:.0f}%" if whole else f"{found:.{digits}g}%"


def duration(seconds: float) -> str:
    """Write a time with two digits or two units.

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


def in_units(value: float) -> str:
    """Write bytes in a unit that leaves two or three digits.

    >>> in_units(71.4e9), in_units(512)
    ('71 GB', '0.51 kB')
    """
    name = next((name for name, size in BYTES.items() if value >= size), "kB")
    scaled = value / BYTES[name]
    return f"{scaled:.0f} {name}" if scaled >= 10 else f"{scaled:.2g} {name}"
