"""The set and the regrets on simulated studies: right at their level, and able to refuse.

J(G) = 0.8 - slope [G + 16/(G-1)] beside noise that grows with G and is shared by a seed's
runs; the true best group size of the grid is 4. `benchmarks/training_levels.py` has more.
"""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from mse_lab.studies.training.best_sizes import Curve, Regret, judge_size, regrets

SIZES = np.array([2.0, 4, 8, 16, 32, 64])
LEVEL, TOLERANCE = 0.95, 0.02
TRIALS = 60


def simulate(rng, seeds=16, slope=0.005, noise=0.02):
    means = 0.8 - slope * (SIZES + 16 / (SIZES - 1))
    spread = noise * np.linspace(0.5, 1.5, len(SIZES))
    values = means + spread * rng.standard_normal((seeds, len(SIZES)))
    return Curve(SIZES, values + 0.05 * rng.standard_normal((seeds, 1)))


def verdicts(size, trials=TRIALS, **design):
    rng, found = np.random.default_rng(0), Counter()
    for _ in range(trials):
        curve = simulate(rng, **design)
        compared = regrets(curve, LEVEL)
        found[judge_size(compared[curve.nearest(size)], compared, TOLERANCE)] += 1
    return found


def at_most(share, trials):
    """A count of events of this probability that chance exceeds once in 1,000."""
    return stats.binom.isf(1e-3, trials, share)


def test_a_true_prediction_holds_and_a_false_one_fails():
    true = verdicts(5)
    assert true["fails"] <= at_most(1 - LEVEL, TRIALS)
    assert true["holds"] > TRIALS / 2
    assert verdicts(32)["fails"] > 0.9 * TRIALS


def test_noise_and_a_flat_curve_confirm_nothing():
    assert verdicts(5, 10, seeds=4, noise=0.3)["holds"] <= 1
    assert verdicts(5, slope=0.0)["holds"] <= at_most(1 - LEVEL, TRIALS)


def test_where_every_size_would_pass_none_is_confirmed():
    small, large = Regret(0.001, 0.0, 0.004), Regret(0.05, 0.03, 0.07)
    assert judge_size(small, [small, small], TOLERANCE) == "undecided"
    assert judge_size(small, [small, large], TOLERANCE) == "holds"
    assert judge_size(large, [small, large], TOLERANCE) == "fails"
    assert judge_size(Regret(0.02, 0.0, 0.03), [large], TOLERANCE) == "undecided"


def test_the_set_holds_the_best_and_regret_is_measured():
    """Means 1, 0.9, 0.2 with spread 0.001: the regrets are 0, 0.1 and 0.8."""
    rng = np.random.default_rng(3)
    values = np.array([1.0, 0.9, 0.2]) + 0.001 * rng.standard_normal((8, 3))
    found = regrets(Curve(SIZES[:3], values), LEVEL)
    assert [one.in_set for one in found] == [True, False, False]
    assert [one.value for one in found] == pytest.approx([0, 0.1, 0.8], abs=0.005)
    assert found[1].low < 0.1 < found[1].high


def test_the_best_leaves_the_set_no_more_often_than_said():
    """Four equal means: the one that is called the best is any; each stays in the set."""
    rng, trials = np.random.default_rng(4), 100
    left = sum(
        not regrets(Curve(SIZES[:4], rng.standard_normal((6, 4))), LEVEL)[0].in_set
        for _ in range(trials)
    )
    assert 0 < left <= at_most(1 - LEVEL, trials)


def test_what_all_runs_of_a_seed_share_changes_nothing():
    curve = simulate(np.random.default_rng(5))
    shifted = curve.values_SG + np.linspace(-9, 9, len(curve.values_SG))[:, None]
    found = np.array(regrets(Curve(SIZES, shifted), LEVEL))
    np.testing.assert_allclose(found, regrets(curve, LEVEL), atol=1e-9)


def test_runs_that_are_all_alike_are_all_the_best():
    found = regrets(Curve(SIZES, np.full((4, 6), 0.5)), LEVEL)
    np.testing.assert_allclose(found, np.zeros((6, 3)), atol=1e-8)
    assert found[0].in_set


def test_the_ends_are_bonferronis():
    """Gains of -1, 0, 1 and 2 over two sizes: mean 0.5, standard error 0.6455.

    Each of two comparisons has 2.5%: Student's quantile at three degrees is 3.18245.
    """
    gains = np.array([-1.0, 0, 1, 2])
    curve = Curve(SIZES[:3], np.stack([np.full(4, 5.0), 5 + gains, 5 + gains], axis=1))
    found = regrets(curve, LEVEL)[0]
    assert found == pytest.approx((0.5, 0.0, 0.5 + 3.18245 * 0.6454972), abs=1e-5)
    larger = Curve(SIZES[:3], curve.values_SG + np.array([0, 9, 9]))
    assert regrets(larger, LEVEL)[0].low == pytest.approx(
        9.5 - 3.18245 * 0.6454972, abs=1e-5
    )


def test_rounding_moves_nothing():
    """Another processor rounds otherwise."""
    rng = np.random.default_rng(5)
    curve = simulate(rng)
    noise = 1e-15 * rng.standard_normal(curve.values_SG.shape)
    rounded = curve._replace(values_SG=curve.values_SG * (1 + noise))
    np.testing.assert_allclose(regrets(curve, LEVEL), regrets(rounded, LEVEL), atol=1e-12)
