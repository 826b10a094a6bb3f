"""Formatting: numbers with the digits that their intervals allow, and aligned tables."""

from math import inf, nan

import pytest

from mse_lab.formatting import NONE, number, percent, table, times, typeset, with_interval
from mse_lab.mse.intervals import UNKNOWN


def test_numbers():
    assert number(inf) == "infinite"
    assert number(-0.0) == "0"
    assert number(None) == number(nan) == NONE


@pytest.mark.parametrize(
    ("interval", "written"),
    [
        # Two digits of twice the distance to the nearer end, here 0.73 and 0.32.
        ((-1.234, -1.6, -0.8), "-1.23 (-1.60 to -0.80)"),
        ((3.53, 3.37, 3.71), "3.53 (3.37 to 3.71)"),
        # Three digits in all are enough, unless they hide that the ends differ.
        ((1.0812, 1.0634, 1.1101), "1.08 (1.06 to 1.11)"),
        ((1.0012, 1.0008, 1.0016), "1.0012 (1.0008 to 1.0016)"),
        ((4.61, 2.1, 40.0), "4.6 (2.1 to 40.0)"),
        ((1009123.0, 978000.0, 1045000.0), "1.01e+06 (0.98e+06 to 1.04e+06)"),
        ((1.0, 1.0, 1.0), "1"),
        ((2.0, 1.5, nan), "2"),
        ((3.0, 2.0, inf), "3 (2 or more)"),
        ((inf, 2.0, inf), "at least 2"),
        ((inf, inf, inf), "infinite"),
        (UNKNOWN, "unknown"),
        ((4.91, 1.24, 9.84e6), "5 (1 to 9,840,000)"),
    ],
)
def test_intervals(interval, written):
    assert with_interval(interval) == written


def test_shares_and_multiples():
    assert percent((0.5, 0.4, 0.6)) == "50% (40 to 60)"
    assert percent((0.0021, 0.0012, 0.0037)) == "0.2% (0.1 to 0.4)"
    assert percent(UNKNOWN) == times(UNKNOWN) == "unknown"
    assert times((inf, inf, inf)) == "infinitely many times"


def test_formulas():
    assert typeset("c1 G + c3/(G-1)") == "c₁ G + c₃/(G − 1)"
    assert typeset("nan, inf, 1.2e-05") == "–, ∞, 1.2 × 10⁻⁵"


def test_columns_of_a_table_are_aligned():
    assert table([["a", "12"], ["bc", ""]], align="><") == " a  12\nbc"
    assert table([["a", "12"]], ["name", "G"]) == "name   G\na     12"
