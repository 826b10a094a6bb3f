"""Claims by hand: from numbers to verdicts and to the sentence that goes with each."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from mse_lab.answers.claims import (
    EQUAL_TEST,
    NOT_LARGER,
    SMALLER,
    Case,
    Statement,
    equal,
    holm,
    judge,
    ratio,
    signed,
)
from mse_lab.answers.statements import UNEXPLAINED
from mse_lab.mse.intervals import Statistic

LEVEL = 0.95


def about(test, **further):
    return Statement("S", "says", "short", test, **further)


def spread(count):
    """Numbers whose mean has a standard error of one, by many degrees of freedom."""
    noise = np.random.default_rng(0).standard_normal((1, count))
    return np.sqrt(count) * (noise - noise.mean()) / noise.std(ddof=1)


def number(value, error, test=None):
    """A ratio with this standard error, or what may be negative."""
    found = Statistic(value, {"a": error * spread(10_000)}, {})
    if test is UNEXPLAINED:
        return signed("r^2", found, LEVEL)
    return ratio("a/b", found, Statistic(1.0, {}, {}), LEVEL)


@pytest.mark.parametrize(
    ("test", "value", "error", "verdict", "words"),
    [
        (equal(1.5), 1.0, 0.1, "holds", "inside 0.67 to 1.5"),
        (equal(1.5), 1.0, 0.3, "undecided", "not known to be inside 0.67 to 1.5"),
        (equal(1.5), 1.2, 0.01, "fails", "refuted, p < 0.0001 after"),
        (equal(1.5), 0.8, 0.01, "fails", "refuted"),
        # Shown, but too small for anybody to feel.
        (equal(1.5), 1.03, 0.001, "holds", "a deviation, p < 0.0001"),
        (EQUAL_TEST, 1.03, 0.001, "holds", "inside 0.95 to 1.05"),
        (EQUAL_TEST, 1.049, 0.001, "undecided", "not known to be"),
        (EQUAL_TEST, 1.2, 0.01, "fails", "refuted"),
        (SMALLER, 0.9, 0.01, "holds", "below 1"),
        (SMALLER, 0.9, 0.2, "undecided", "not known to be below 1"),
        (SMALLER, 1.02, 0.001, "undecided", "of a negligible size"),
        (SMALLER, 1.1, 0.01, "fails", "refuted"),
        (NOT_LARGER, 1.0, 0.001, "holds", "below 1.05"),
        (NOT_LARGER, 1.02, 0.001, "holds", "of a negligible size"),
        (NOT_LARGER, 1.1, 0.1, "undecided", "not known to be below 1.05"),
        (NOT_LARGER, 1.1, 0.01, "fails", "refuted"),
        # Not above its noise: no logarithm.
        (NOT_LARGER, 0.1, 0.2, "holds", "a/b 0.10 (-0.29 to 0.49), below 1.05"),
        (equal(1.5), -1.0, 0.2, "fails", "a/b -1.00 (-1.39 to -0.61), refuted"),
        # What explains a hundredth of the variance is negligible.
        (UNEXPLAINED, -0.1, 0.01, "holds", "below"),
        (UNEXPLAINED, 0.005, 0.001, "holds", "of a negligible size"),
        (UNEXPLAINED, 0.005, 0.01, "undecided", "not known"),
        (UNEXPLAINED, 0.5, 0.2, "fails", "refuted"),
    ],
)
def test_a_verdict_is_the_interval_s_but_a_failure_must_be_shown_and_not_negligible(
    test, value, error, verdict, words
):
    [claim] = judge([Case(about(test), (number(value, error, test),))], ("run",))
    assert claim.verdict == verdict
    assert words in claim.sentence


def test_failures_are_corrected_over_the_run_and_holding_is_not():
    """Of ten statements p = 0.01 refutes none, of one that one; intervals are the same."""
    test = equal(1.5)
    deviating = number(1.2, 1.2 * np.log(1.2) / 2.576)
    fine = [number(1.0, 0.1)._replace(group_size=size) for size in range(4, 13)]
    [alone] = judge([Case(about(test), (deviating,))], ("run",))
    assert alone.number.p_value == pytest.approx(0.01, rel=0.01)
    assert alone.verdict == "fails"
    last = deviating._replace(group_size=64)
    whole, *rows = judge([Case(about(test), (*fine, last))], ("run",))
    assert rows[-1].number.p_value == pytest.approx(0.1, rel=0.01)
    assert {one.verdict for one in rows} == {"holds"}
    assert (whole.verdict, whole.group_size) == ("holds", None)
    assert whole.number == rows[-1].number
    assert whole.sentence.startswith("At G = 64, a/b 1.20 (")


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03 times 3, 2, 1, made increasing: 0.03, 0.04, 0.04.
    assert holm([0.03, np.nan, 0.01, 0.02]) == pytest.approx(
        [0.04, np.nan, 0.03, 0.04], nan_ok=True
    )
    assert np.isnan(holm([np.nan])).all()


def test_a_whole_is_as_good_as_the_worst_of_its_sizes():
    good, vague, bad = number(0.5, 0.01), number(0.9, 0.3), number(1.5, 0.01)
    cases = {
        ("holds", 0.6): [(good,), (number(0.6, 0.01), good)],
        ("undecided", 0.9): [(good,), (good, vague)],
        ("fails", 1.5): [(bad, good), (vague,)],
    }
    for (verdict, worst), sizes in cases.items():
        put = [
            one._replace(group_size=size)
            for size, numbers in enumerate(sizes, start=4)
            for one in numbers
        ]
        whole, *_ = judge([Case(about(SMALLER), tuple(put))], ("run",))
        assert whole.verdict == verdict
        assert whole.number.estimate.value == worst
    put = (good._replace(group_size=4),)
    given = Case(about(SMALLER), put, "No minimum.", "undecided", bad)
    [whole, _] = judge([given], ("run",))
    assert (whole.verdict, whole.number.estimate) == ("undecided", bad.estimate)
    assert whole.sentence.endswith("No minimum.")


def test_what_does_not_decide_may_only_refute():
    vague, bad = (
        one._replace(decides=False) for one in (number(1, 0.3), number(1.5, 0.01))
    )
    sure = number(1.0, 0.001)
    for second, verdict in ((vague, "holds"), (bad, "fails")):
        [claim] = judge([Case(about(EQUAL_TEST), (sure, second))], ("run",))
        assert claim.verdict == verdict
        assert claim.number.estimate == (sure if verdict == "holds" else bad).estimate


@pytest.mark.parametrize(("assumed", "verdict"), [(1.0, "fails"), (1.5, "outside")])
def test_a_statement_outside_its_assumptions_is_not_refuted(assumed, verdict):
    premise = replace(about(equal(1.5)), name="Assumption 9 (on average)")
    corollary = about(SMALLER, assumes="Assumption 9")
    cases = [Case(premise, (number(assumed, 0.01),)), Case(corollary, (number(1.5, 0.01),))]
    assert judge(cases, ("run",))[1].verdict == verdict


def test_what_a_refutation_is_called():
    picture = about(SMALLER, refuted="does not carry over")
    for value, verdict in ((0.5, "holds"), (1.5, "does not carry over")):
        put = number(value, 0.01)._replace(group_size=4, beside=", by the theorem 1.3")
        claims = judge([Case(picture, (put,))], ("run",))
        assert [one.verdict for one in claims] == [verdict, verdict]
        assert "), by the theorem 1.3, " in claims[0].sentence


def test_numbers_take_their_spread_from_statistics():
    """Four values with mean 2 and standard error 1/2: t of 4, at 3 degrees."""
    groups = np.array([[1.0, 1.0, 3.0, 3.0]])
    found = Statistic(2.0, {"a": groups}, {})
    plain = signed("a", found, LEVEL)
    assert plain.error == pytest.approx(found.error)
    assert plain.estimate == found.interval(LEVEL)
    t = 2 / found.error
    assert plain.p_outside((0.0, 0.0)) == pytest.approx(2 * special.stdtr(3, -t))
    base = Statistic(1.0, {}, {})
    over = ratio("a/b", found, base, LEVEL)
    assert over.estimate == found.ratio_to(base, LEVEL)
    log = found.exceeding(base)
    tail = special.stdtr(log.spread.degrees, -log.value / log.error)
    assert over.p_outside((1.0, 1.0)) == pytest.approx(2 * tail)
    unknown = ratio("a/b", base, Statistic(0.5, {"a": groups}, {}), LEVEL)
    assert np.isnan([*unknown.estimate, unknown.error]).all()
