"""Formatting: numbers, intervals, shares and times as people read them.

An interval is (value, low, high). Screens, files and the page show it as `1.08 (1.06 to
1.11)`, with the digits that its width justifies. A number that is none is not shown:

- An interval of a positive number that spans a factor above 100 leaves the nearer end,
  `at most 8` or `at least 3`; of a multiple `not known` where both are more than a factor
  10 away.
- Of a share that may be nearly all from 0 to 100% nothing is left, and the upper end alone
  where that is more than 100 times the share.
- A share below 0.01% is `under 0.01%`. Shares and multiples have no powers of ten.
- Numbers of one prompt have no interval: their ends are NaN.
- Times have their own function, for they change units with their size. Counts are whole,
  with a comma for thousands, and settings stand as they were typed.
"""

import math
import re
import textwrap

WithEnds = tuple[float, float, float]

NONE = "–"

WIDTH = 80  # Columns of a screen.

NOT_KNOWN = "not known"

# Ends further apart than the first factor say nothing, but one within the second may.
VAGUE_FACTOR, NEAR_FACTOR = 100, 10

# A share whose interval is wider is not known; a smaller one than the last is not written.
WIDEST, LEAST_SHARE = 0.95, 1e-4

LEAST_TIMES, MOST_TIMES = 1e-3, 1e6

EXPONENT = re.compile(r"(?<=\d)e([+-]\d+)\b")


def power_of_ten(value: float) -> int:
    """Give the exponent of a very large or very small number; 0 for others."""
    size = abs(value)
    if not math.isfinite(size) or size == 0 or 1e-3 <= size < 1e5:
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


def parts(
    interval: WithEnds, digits: int = 2, most_decimals: int | None = None
) -> tuple[str, str]:
    """Write a number, and its interval if it has one: value, low and high.

    `digits` are shown of the width, which is twice the distance to the nearer end. A number
    has at most three, or five where its ends would look the same. With `most_decimals`
    there are no more of these, and no powers of ten.
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
    one_unit = most_decimals is None and (largest < 1e3 * abs(value) or largest < 1)
    power = power_of_ten(largest) if one_unit else 0
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
    most = _decimals(largest / unit, 5) if most_decimals is None else most_decimals
    shown = [_fixed(end, min(decimals, most), power) for end in interval]
    if len({*shown}) == 1:
        return shown[0], ""
    return shown[0], f"({shown[1]} to {shown[2]})"


def _one_end(interval: WithEnds) -> str:
    """Say what a vague interval leaves of a positive number; empty if it says more."""
    value, low, high = interval
    if not 0 < value < math.inf or not 0 <= low <= value <= high < math.inf:
        return ""
    below, above = (value / low if low else math.inf), high / value
    if below * above <= VAGUE_FACTOR or (low == 0 and above <= VAGUE_FACTOR):
        return ""
    return f"at most {number(high)}" if above <= below else f"at least {number(low)}"


def with_interval(interval: WithEnds) -> str:
    """Write a number with its interval.

    >>> with_interval((1.0812, 1.0634, 1.1101)), with_interval((3.1, 2.0, math.inf))
    ('1.08 (1.06 to 1.11)', '3.10 (2 or more)')
    >>> with_interval((4.9, 1.2, 9e6)), with_interval((0.6, 0.01, 78.4))
    ('at least 1.20', 'at least 0.0100')
    """
    if math.isnan(interval[0]):
        return "unknown"
    return _one_end(interval) or " ".join(parts(interval)).rstrip()


def percent(interval: WithEnds) -> str:
    """Write a share in percent with its interval.

    >>> percent((0.62, 0.57, 0.69))
    '62% (57 to 69)'
    """
    value, low, high = interval
    if math.isnan(value):
        return "unknown"
    if low >= 0 and high <= 1 and high - low > WIDEST:
        return NOT_KNOWN
    if 0 < value < high / VAGUE_FACTOR and low >= 0:
        return f"at most {share(high)}"
    ends = [end for end in interval if math.isfinite(end)]
    if ends and 0 < max(map(abs, ends)) < LEAST_SHARE:
        return f"under {100 * LEAST_SHARE:g}%"
    if math.isfinite(value) and not all(map(math.isfinite, interval)):
        return share(value)
    shown, ends_shown = parts((100 * value, 100 * low, 100 * high), 1, most_decimals=2)
    if EXPONENT.search(shown):
        return f"over {MOST_TIMES:,.0f}%"
    return f"{shown}% {ends_shown}".rstrip()


def times(interval: WithEnds) -> str:
    """Write by which factor a quantity is larger, with its interval and two decimals.

    >>> times((0.9151, 0.888, 0.944)), times((math.inf, 4.0, math.inf))
    ('0.92 (0.89 to 0.94)', 'at least 4')
    """
    value, low, high = interval
    if math.isnan(value):
        return "unknown"
    if low == math.inf:
        return "infinitely many"
    known = [each for each in interval if math.isfinite(each)]
    if low <= 0 < value and high < math.inf:
        tiny = high < LEAST_TIMES
        text = f"under {LEAST_TIMES:g}" if tiny else f"at most {number(high)}"
    elif text := _one_end(interval):
        if low * NEAR_FACTOR < value < high / NEAR_FACTOR:
            return NOT_KNOWN
    elif value >= 0 and max(known) < LEAST_TIMES:
        text = f"under {LEAST_TIMES:g}"
    elif min(known) > MOST_TIMES:
        text = f"over {MOST_TIMES:,.0f}"
    else:
        text = " ".join(parts(interval, most_decimals=2)).rstrip()
    return NOT_KNOWN if EXPONENT.search(text) else text


def share(value: float, digits: int = 2) -> str:
    """Write a share without an interval in percent.

    >>> share(0.1234), share(0.0312), share(0.0312, 3), share(1.0)
    ('12%', '3.1%', '3.12%', '100%')
    """
    if 0 < abs(value) < LEAST_SHARE:
        return f"under {100 * LEAST_SHARE:g}%"
    shown = 100 * value
    whole = abs(shown) >= 10**digits - 0.5
    return f"{shown:,.0f}%" if whole else f"{shown:.{digits}g}%"


def duration(seconds: float) -> str:
    """Write a time with two digits, or in two units.

    >>> [duration(seconds) for seconds in (0.04, 7.24, 42, 200, 12000, 190000)]
    ['0.04 s', '7.2 s', '42 s', '3 min 20 s', '3 h 20 min', '2 d 5 h']
    """
    if 0 < seconds < 0.01:
        return "under 0.01 s"
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    units = (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")
    for unit, name, part, small in units:
        if whole >= unit:
            count, rest = divmod(round(whole / part) * part, unit)
            return f"{count} {name} {rest // part} {small}"
    return f"{whole} s"


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
