"""Formatting: numbers with the digits that their intervals allow, and aligned tables."""

import re
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mse_lab.formatting import NONE, duration, number, percent, share, times, with_interval
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
        # A factor above 100: the nearer end alone, or none.
        ((4.91, 1.24, 9.84e6), "at least 1.24"),
        ((4.91, 0.001, 9.0), "at most 9"),
        ((0.6, 0.004, 78.4), "at most 78.4"),
        ((0.5, 0.0, 1.0), "0.5 (0.0 to 1.0)"),
        ((-1.0, -200.0, 3.0), "-1 (-200 to 3)"),
    ],
)
def test_intervals(interval, written):
    assert with_interval(interval) == written


def test_shares_and_multiples():
    assert percent((0.5, 0.4, 0.6)) == "50% (40 to 60)"
    assert percent((0.0021, 0.0012, 0.0037)) == "0.2% (0.1 to 0.4)"
    assert percent(UNKNOWN) == times(UNKNOWN) == "unknown"
    assert times((inf, inf, inf)) == "infinitely many"
    assert times((0.6, 0.004, 78.4)) == "not known"
    assert times((0.6, -0.1, 2.0)) == "at most 2"
    assert times((2e-9, 1e-9, 3e-9)) == "under 0.001"
    assert percent((6e-9, 2e-9, 0.110633662)) == "at most 11%"
    assert percent((1e-7, 1e-7, 1e-7)) == share(1e-7) == "under 0.01%"
    assert percent((1.0, 0.02, 1.0)) == "not known"
    assert percent((1.0, nan, nan)) == "100%"
    assert percent((0.0, 0.0, 0.06)) == "0% (0 to 6)"
    assert share(0.0) == "0%"


SIZES = st.floats(1e-12, 1e12)
ENDS = st.one_of(SIZES, st.just(nan), st.just(inf), st.just(0.0))


@given(SIZES, ENDS, ENDS)
def test_no_share_or_multiple_is_a_number_that_is_none(value, one, other):
    """No power of ten, at most five digits, no interval of a factor above 100."""
    ends = (value, one, other)
    low, high = (nan, nan) if any(map(isnan, ends)) else (min(ends), max(ends))
    for write in (percent, times):
        text = write((value, low, high))
        assert not re.search(r"\de[+-]?\d|[1-9]\.\d{5}|\.0*[1-9]\d{4}|nan", text), text
        assert not (isnan(low) and "(" in text), text
        if " to " in text and low > 0:
            assert high / low <= 101 or (write is percent and value * 101 >= high), text
    assert not re.search(r"\de[+-]?\d", share(value) + duration(value)), value


@given(st.tuples(*[st.floats(0, 1)] * 3))
def test_a_share_of_anything_is_not_known(ends):
    """Whatever its value, where the interval leaves out less than a twentieth."""
    low, value, high = sorted(ends)
    unknown = percent((value, low, high)) == "not known"
    assert unknown == (high - low > 0.95)
