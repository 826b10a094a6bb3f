"""Wording: numbers with the digits that their intervals allow, and formulas as typeset."""

import math
import re

from mse_lab.mse.intervals import Estimate
from mse_lab.report.markup import Html, element, join

NONE = "–"

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_TYPESET = {
    "Sigma_oracle": "Σ(oracle)",
    "sqrt(": "√(",
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
}

_NOTHING = re.compile(r"\bnan \[nan, nan\]|\bnan\b")
_INFINITE = re.compile(r"\binf\b")
_SQUARE = re.compile(r"\|\|(.+?)\|\|\^2")
_EXPONENT = re.compile(r"(?<=\d)e([+-]\d+)\b")


def typeset(text: str) -> str:
    """Write the formulas of a plain text as a book would.

    >>> typeset("||W||^2 >= zeta, 1.2e-16")
    '‖W‖² ≥ ζ, 1.2 × 10⁻¹⁶'
    """
    text = _SQUARE.sub(r"‖\1‖²", text)
    for plain, set_ in _TYPESET.items():
        text = text.replace(plain, set_)
    text = _NOTHING.sub(NONE, _INFINITE.sub("∞", text))
    return _EXPONENT.sub(lambda found: times(int(found[1])), text)


def power_of_ten(largest: float) -> int:
    """Power of ten to take out of very large and very small numbers; else 0."""
    if not math.isfinite(largest) or largest == 0 or 1e-3 <= largest < 1e6:
        return 0
    return math.floor(math.log10(largest))


def _fixed(value: float, decimals: int) -> str:
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    rounded = round(value, decimals)
    # Adding zero turns -0.0 into 0.0.
    return f"{rounded + 0.0:,.{max(decimals, 0)}f}".replace("-", "−")


def times(power: int) -> str:
    """Write a power of ten as a factor; nothing for 0."""
    return f" × 10{str(power).translate(_SUPERSCRIPTS)}" if power else ""


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


def parts(estimate: Estimate) -> tuple[str, str]:
    """Write a number and its interval, to the interval's second digit; four at most.

    >>> parts(Estimate(0.6234, 0.5666, 0.6852))
    ('0.62', '[0.57, 0.69]')
    """
    value, low, high = estimate
    if math.isnan(low) or math.isnan(high):
        return number(value), ""
    if math.isclose(low, high, rel_tol=1e-9):
        return f"{value:.4g}", ""
    finite = [abs(one) for one in estimate if math.isfinite(one)]
    power = power_of_ten(max(finite, default=0.0))
    value, low, high = (one / 10**power for one in estimate)
    width = high - low if math.isfinite(high - low) else value
    largest = max(finite, default=0.0) / 10**power
    decimals = min(_decimals(width, 2), _decimals(largest, 4))
    shown = [_fixed(one, decimals) for one in (value, low, high)]
    return shown[0] + times(power), f"[{shown[1]}, {shown[2]}]"


def interval(estimate: Estimate) -> str:
    """Write a number with its interval in a line.

    >>> interval(Estimate(0.6234, 0.5666, 0.6852))
    '0.62 [0.57, 0.69]'
    """
    return " ".join(parts(estimate)).rstrip()


def percent(estimate: Estimate) -> str:
    """Write a share in percent.

    >>> percent(Estimate(0.62, 0.57, 0.69))
    '62% [57, 69]'
    >>> percent(Estimate(0.0021, 0.0012, 0.0037))
    '0.2% [0.1, 0.4]'
    """
    if math.isnan(estimate.value):
        return NONE
    width = 100 * (estimate.high - estimate.low)
    decimals = min(max(_decimals(width, 1), 0), 2)
    value, low, high = (_fixed(100 * one, decimals) for one in estimate)
    return f"{value}% [{low}, {high}]"


def cell(estimate: Estimate | None, lead: str = "") -> Html:
    """Set a number above its interval, for a table."""
    if estimate is None:
        return join(NONE)
    value, around = parts(estimate)
    whole = join(lead, value)
    return join(whole, element("small", around)) if around else whole
