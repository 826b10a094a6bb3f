"""Intervals: coverage is measured, on a design that stands for real use.

60 prompts, values between 0.1 and 0.9, a few blocks. A run counts as covering when the
exact MSE lies in its interval. Each binomial test has a false-alarm probability of 1e-3 if
the coverage is exactly 0.95, and says so by failing below about 0.91 of 400.
"""

import numpy as np
import pytest
from scipy import stats
from simulated import make_design

from mse_lab.estimators import find_estimators
from mse_lab.intervals import (
    aggregate_mse,
    covariance_square_trace,
    draw_resamples,
    law_intervals,
    percentile_interval,
)
from mse_lab.replicates import Key, block_means, measure_errors

LEVEL, TRIALS = 0.95, 400
NAMES = ["vanilla", "grpo", "oracle"]


def cover(blocks, largest, reference, blocks_drawn=None, kind="mse"):
    """Count trials in which the exact value lies inside, for each estimator and G."""
    rng = np.random.default_rng(0)
    design = make_design(rng)
    sizes = [4, largest]
    estimators = find_estimators(NAMES, sizes)
    inside = {Key(name, size): 0 for name in NAMES for size in sizes}
    for _ in range(TRIALS):
        pools = design.draw(rng, reference, blocks, largest)
        errors = measure_errors(pools, estimators, sizes)
        resamples = draw_resamples(pools, 300, rng, blocks_drawn)
        laws = law_intervals(pools, resamples, errors, LEVEL)
        for key, errors_PR in errors.items():
            means = block_means(errors_PR, blocks)
            value = means.mean(-1).sum() / design.prompts**2
            mse = percentile_interval(value, aggregate_mse(resamples, means), LEVEL)
            low, high = (mse if kind == "mse" else laws[key])[1:]
            inside[key] += low <= design.mse(key.estimator, key.group_size) <= high
    return inside


def shortfall(covered):
    """Probability of so few or fewer, if the coverage were the level."""
    return stats.binomtest(covered, TRIALS, LEVEL, alternative="less").pvalue


@pytest.mark.parametrize(("blocks", "largest"), [(2, 32), (4, 16)])
def test_coverage(blocks, largest):
    for key, covered in cover(blocks, largest, reference=256).items():
        assert shortfall(covered) > 1e-3, (key, covered / TRIALS)


def test_coverage_of_the_law():
    for key, covered in cover(4, 16, reference=256, kind="law").items():
        assert shortfall(covered) > 1e-3, (key, covered / TRIALS)


def test_without_the_few_blocks_correction_coverage_fails():
    """Negative control: drawing all K blocks of two is too narrow by a factor 1/2."""
    covered = cover(2, 32, reference=256, blocks_drawn=2)[Key("vanilla", 32)]
    assert shortfall(covered) < 1e-6, covered / TRIALS


def test_two_half_error_is_unbiased_and_the_plain_one_biased_by_the_predicted_amount():
    """Over 300 runs; each comparison within four standard errors, false alarm 6e-5."""
    rng = np.random.default_rng(1)
    design = make_design(rng, prompts=10)
    estimators = find_estimators(["grpo"], [8])
    unbiased, plain, predicted = [], [], []
    for _ in range(300):
        pools = design.draw(rng, 32, 2, 8)
        errors = measure_errors(pools, estimators, [8])[Key("grpo", 8)].mean()
        excess = pools.reference_distance2_P.mean() / 4
        unbiased.append(errors)
        plain.append(errors + excess)
        predicted.append(excess)
    exact = design.mse("grpo", 8) * design.prompts

    def standard_errors(values, target):
        return abs(np.mean(values) - target) / (np.std(values, ddof=1) / np.sqrt(300))

    assert standard_errors(unbiased, exact) < 4
    assert standard_errors(plain, exact) > 10
    # rbar is a mean of two halves: E||r_A - r_B||^2 / 4 = tr Var(rbar).
    reference_variance = design.mse("grpo", 16) * design.prompts / 2
    assert standard_errors(predicted, reference_variance) < 4


def test_the_draw_is_shared():
    """The ratio's interval is far narrower than its parts': they are paired."""
    rng = np.random.default_rng(2)
    pools = make_design(rng).draw(rng, 256, 4, 64)
    errors = measure_errors(pools, find_estimators(["grpo", "oracle"], [64]), [64])
    resamples = draw_resamples(pools, 500, rng)
    top, bottom = (
        aggregate_mse(resamples, block_means(errors[Key(name, 64)], 4))
        for name in ("grpo", "oracle")
    )
    assert np.std(top / bottom) < 0.3 * np.std(top) / np.mean(top)


def test_covariance_square_trace():
    """Over 200 draws equal to tr(M^2), M = E[eps^2 W W'], within four standard errors."""
    rng = np.random.default_rng(3)
    design = make_design(rng, prompts=2)
    residual = design.reward_PC - design.mean(design.reward_PC)[:, None]
    moment = np.einsum(
        "pc,pc,pcd,pce->pde",
        design.probability_PC, residual**2, design.score_PCD, design.score_PCD,
    )  # fmt: skip
    exact = np.einsum("pde,ped->p", moment, moment)
    found = np.array(
        [covariance_square_trace(design.draw(rng, 2**14, 2, 64)) for _ in range(200)]
    )
    standard_error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert (abs(found.mean(0) - exact) < 4 * standard_error).all()
