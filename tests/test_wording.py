"""Words: numbers with the digits that their intervals allow, and numbers that are none."""

from math import inf

from mse_lab.mse.intervals import UNKNOWN
from mse_lab.wording import (
    NONE,
    number,
    percent,
    plain_percent,
    plain_with_interval,
    typeset,
    with_interval,
)


def test_numbers():
    assert number(float("inf")) == "∞"
    assert number(0.0) == "0"
    assert number(None) == NONE


def test_intervals():
    # The second digit of the interval's width, 0.8: hundredths.
    assert with_interval((-1.234, -1.6, -0.8)) == "−1.23 [−1.60, −0.80]"
    assert with_interval((1.0, 1.0, 1.0)) == "1"
    assert with_interval((2.0, 1.5, float("nan"))) == "2.00"
    assert with_interval((inf, inf, inf)) == "∞"
    assert plain_with_interval((3.0, 2.0, inf)) == "at least 2"
    assert plain_with_interval((inf, inf, inf)) == "infinite"
    assert (
        with_interval((1009123.0, 978000.0, 1045000.0))
        == "1.009 × 10⁶ [0.978, 1.045] × 10⁶"
    )


def test_shares():
    assert percent((0.5, 0.4, 0.6)) == "50% [40, 60]"
    assert percent((0.0021, 0.0012, 0.0037)) == "0.2% [0.1, 0.4]"
    assert percent(UNKNOWN) == NONE
    assert plain_percent(UNKNOWN) == "unknown"


def test_formulas():
    assert typeset("c1 G + c3/(G-1)") == "c₁ G + c₃/(G − 1)"
    assert typeset("nan [nan, nan], inf") == "–, ∞"
