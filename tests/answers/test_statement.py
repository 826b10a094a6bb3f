"""Claims made of judged pairs: each size by its worst pair, the whole by its worst size."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mse_lab.answers.judgement import Pair
from mse_lab.answers.statement import Case, Statement, largest_ratio
from mse_lab.mse.intervals import Estimate, Statistic

CASE = Case(Statement("S", "says"), ("run",), 0.95)


def number(value, error=0.001):
    """A number that varies by so much."""
    noise = np.random.default_rng(0).standard_normal((1, 1000))
    return Statistic(value, {"run": error * np.sqrt(noise.size) * noise}, {})


def pair(size, value, error=0.001, label="a / b"):
    return Pair(size, number(value, error), Statistic(1.0, {}, {}), label)


def told(claims):
    return [(claim.group_size, claim.verdict) for claim in claims]


def test_equality_fails_as_a_whole_where_one_size_fails():
    claims = CASE.equal([pair(2, 1.0), pair(4, 1.2), pair(8, 1.1, 1.0)], lambda _: "told")
    assert told(claims) == [(None, "fails"), (2, "holds"), (4, "fails"), (8, "undecided")]
    assert claims[0].estimate == claims[2].estimate
    assert "furthest off at G = 4: 1.200 (" in claims[0].measured
    assert "outside the interval" in claims[0].reason
    assert "more than 50%" in claims[3].reason


def test_a_size_holds_where_all_its_pairs_do_and_shows_the_worst():
    pairs = [pair(2, 0.5), pair(2, 0.9), pair(4, 0.5), pair(4, 1.5, label="c / d")]
    claims = CASE.smaller(pairs, "why")
    assert told(claims) == [(2, "holds"), (4, "fails")]
    assert [claim.estimate.value for claim in claims] == pytest.approx([0.9, 1.5])
    assert "a / b 0.500 (" in claims[1].measured
    assert "c / d 1.500 (" in claims[1].measured


def test_other_pairs_are_shown_than_those_judged():
    [claim] = CASE.not_larger([pair(4, 0.9)], [pair(4, 1.3)], "why")
    assert claim.verdict == "holds"
    assert claim.estimate.value == pytest.approx(1.3)


def test_evidence_is_what_nothing_makes_fail():
    identity = Case(Statement("S", "says", "other weights"), ("run",), 0.95)
    assert CASE.claim("m", "holds", "why").about.kind == "evidence"
    assert identity.claim("m", "holds", "why").about.kind == "identity"
    argued = replace(CASE, statement=replace(CASE.statement, argued=True))
    assert argued.claim("m", "fails", "why").about.kind == "argument"


def test_runs_are_judged_together_at_the_stricter_of_their_levels():
    runs = [SimpleNamespace(name="a", level=one, law_only=False) for one in (0.9, 0.99)]
    assert CASE.statement.about(*runs).level == 0.99


def test_without_replicates_all_is_undecided_and_with_them_nothing_is_said():
    untested = Case(Statement("S", "says"), ("run",), 0.95, untested="none")
    assert told(untested.without_replicates()) == [(None, "undecided")]
    assert CASE.without_replicates() == []


def test_the_worst_of_a_size_is_told_by_its_value_and_not_by_its_interval():
    pairs = [pair(4, 1.5, 0.2, "known well"), pair(4, 1.6, 0.3, "known badly")]
    [claim, *_] = CASE.smaller(pairs, "reason")
    assert claim.estimate.value == pytest.approx(1.6)
    low = [one.first.ratio_to(one.second, CASE.level).low for one in pairs]
    assert low[0] > low[1]


def test_an_unknown_ratio_is_not_the_largest():
    """Also where it comes first: nothing is larger than what is not a number."""
    rows = [
        CASE.claim("told", "holds", "", Estimate(value, value, value), 1.0, size)
        for size, value in ((2, np.nan), (4, 1.2), (8, 1.1))
    ]
    assert largest_ratio(rows).group_size == 4
