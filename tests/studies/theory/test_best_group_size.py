"""The best group size of the limit: the fit, its interval, and what runs say."""

import numpy as np
import pytest

from mse_lab.studies.theory.best_group_size import (
    SIZES,
    fit_best_size,
    judge_best_size,
    judge_two_actions,
    judge_unseen_word,
)
from mse_lab.studies.theory.findings import REACH

SIZE = np.array(SIZES, dtype=float)


def curve(between, within, pairs):
    return between * SIZE + within + pairs / (SIZE - 1)


def test_an_exact_curve_gives_the_exact_size():
    """c3/c1 = 9: G* = 4, log(G* - 1) = log 3."""
    found = fit_best_size(curve(1.0, 5.0, 9.0), np.full(5, 1e-6))
    assert found.value == pytest.approx(np.log(3), abs=1e-6)
    assert found.high - found.low < 1e-4


def test_its_interval_covers_and_is_no_wider_than_its_spread():
    """1,000 curves with errors of 2%: at least 97.5% for 99%, by the delta method."""
    exact, draws = curve(1.0, 15.0, 16.0), np.random.default_rng(0)
    errors, noises = 0.02 * exact, draws.standard_normal((1000, 5))
    found = np.array([fit_best_size(exact + errors * one, errors) for one in noises])
    value, low, high = found.T
    assert ((low <= np.log(4)) & (np.log(4) <= high)).mean() > 0.975
    assert np.median(high - low) == pytest.approx(2 * REACH * value.std(), rel=0.15)


def test_without_a_least_size_nothing_is_known():
    assert np.isnan(fit_best_size(curve(-1.0, 50.0, 9.0), np.ones(5)).value)


def test_two_actions_have_one_best_size(two, six):
    assert judge_two_actions(two).verdict == "holds"
    assert judge_two_actions(six).verdict == "fails"


def test_a_word_moves_the_least_mse_and_not_the_limit(word, two):
    found = judge_unseen_word(word)
    assert found.expected == pytest.approx(two.best_size)
    # zeta = Var(Z) (S + 7/8) + ||g||^2 of the prompts that `two` has.
    moments = two.bandit.peak.moments
    zeta = (moments.zeta + 7 / 8 * moments.variance).mean()
    best = 1 + np.sqrt(zeta / moments.gradient2.mean())
    assert found.estimate.value == pytest.approx(best)
    assert found.verdict == "fails"
    assert judge_unseen_word(two).verdict == "holds"


def test_runs_find_it(six, few):
    findings, table = judge_best_size(six, few)
    law, best, mean = findings
    assert law.estimate.low == 0
    assert law.control.caught
    assert best.control.caught
    assert best.estimate.low < six.best_size < best.estimate.high
    assert 0.85 < mean.estimate.value < 1.15
    assert list(table["group_size"]) == list(SIZES)
    # A budget of 12 completions: not 12 times as much for each prompt.
    np.testing.assert_allclose(table["gap"] / table["limit"], 1, atol=0.2)
