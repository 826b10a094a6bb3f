"""Patterns: what a user's regular expression finds, and when it is given up."""

import re
import signal
import time

import pytest

from mse_lab.errors import InputError
from mse_lab.probe import patterns
from mse_lab.probe.patterns import fault_of_pattern, find_matching

NAMES = ["layers.1.mlp", "layers.11.mlp", "head"]
ENDLESS = "(([a-z_0-9]+[.]?)+)+#"


def test_it_is_searched_for_in_the_names_or_put_to_the_whole():
    assert find_matching("mlp", NAMES) == set(NAMES[:2])
    assert find_matching("^head|1[.]m", NAMES) == set(NAMES)
    assert find_matching("layers", NAMES, match=re.fullmatch) == set()
    assert find_matching("h.*", NAMES, match=re.fullmatch) == {"head"}


@pytest.mark.parametrize("pattern", ["[a", "a{99999999999}", "(?P<a>x)(?P<a>y)", "(" * 500])
def test_what_is_no_regular_expression(pattern):
    assert fault_of_pattern(pattern)
    with pytest.raises(InputError, match=r"mine: .* is no regular expression: "):
        find_matching(pattern, NAMES, where="mine")


def test_an_endless_search_is_given_up(monkeypatch):
    """And the alarm is as it was before."""
    monkeypatch.setattr(patterns, "SECONDS", 0.2)
    handler, began = signal.getsignal(signal.SIGALRM), time.monotonic()
    with pytest.raises(InputError, match=r"mine: .* was searched for 0.2 seconds in vain"):
        find_matching(ENDLESS, ["a" * 60], where="mine")
    assert time.monotonic() - began < 5
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
