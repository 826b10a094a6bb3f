"""Intervals: coverage is measured, on a design that stands for real use.

60 prompts, values between 0.1 and 0.9, a few blocks. A run counts as covering when the
exact MSE lies in its interval. Each binomial test has a false-alarm probability of 1e-3 if
the coverage is exactly 0.95, and says so by failing below about 0.91 of 400.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from simulated import make_design

from mse_lab.curves import Curves, measure_curves
from mse_lab.estimators import find_estimators
from mse_lab.intervals import covariance_square_trace, draw_resamples
from mse_lab.replicates import Key, measure_errors

LEVEL, TRIALS, RESAMPLES = 0.95, 400, 300
NAMES = ["vanilla", "grpo", "oracle"]


def cover(blocks, largest, reference, blocks_drawn=None, kind=0, design=None):
    """Count trials in which the exact value lies inside, for each estimator and G.

    Args:
        blocks: Blocks a prompt.
        largest: Group size of a block.
        reference: Completions of the reference.
        blocks_drawn: None for the right number.
        kind: 0 for the measured MSE, 1 for the law.
        design: The prompts; by default 60 with values between 0.1 and 0.9.
    """
    rng = np.random.default_rng(0)
    design = design or make_design(rng)
    sizes = [4, largest]
    estimators = find_estimators(NAMES, sizes)
    inside = {Key(name, size): 0 for name in NAMES for size in sizes}
    for _ in range(TRIALS):
        pools = design.draw(rng, reference, blocks, largest)
        errors = measure_errors(pools, estimators, sizes)
        curves = Curves(pools, draw_resamples(pools, RESAMPLES, rng, blocks_drawn))
        for key, pair in measure_curves(curves, estimators, errors).items():
            _, low, high = pair[kind].interval("mse", LEVEL)
            inside[key] += low <= design.mse(key.estimator, key.group_size) <= high
    return inside


def shortfall(covered):
    """Probability of so few or fewer, if the coverage were the level."""
    return stats.binomtest(covered, TRIALS, LEVEL, alternative="less").pvalue


@pytest.mark.parametrize(("blocks", "largest"), [(2, 32), (4, 32)])
def test_coverage(blocks, largest):
    for key, covered in cover(blocks, largest, reference=256).items():
        assert shortfall(covered) > 1e-3, (key, covered / TRIALS)


def test_coverage_of_the_law():
    for key, covered in cover(4, 16, reference=256, kind=1).items():
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
    estimators = find_estimators(["grpo", "oracle"], [64])
    curves = Curves(pools, draw_resamples(pools, 500, rng))
    found = measure_curves(curves, estimators, measure_errors(pools, estimators, [64]))
    top, bottom = (found[Key(name, 64)][0].draws.mse for name in ("grpo", "oracle"))
    assert np.std(top / bottom) < 0.3 * np.std(top) / np.mean(top)


def test_the_oracles_interval_knows_that_its_value_is_estimated():
    """Negative control: with the noise of V left out, coverage at many groups fails."""
    rng = np.random.default_rng(0)
    design = make_design(rng)
    estimators = find_estimators(["oracle"], [4])
    exact, inside = design.mse("oracle", 4), 0
    for _ in range(TRIALS):
        pools = design.draw(rng, 64, 32, 16)
        resamples = draw_resamples(pools, RESAMPLES, rng)
        blind = replace(resamples, value_shift_BP=0 * resamples.value_shift_BP)
        errors = measure_errors(pools, estimators, [4])
        pair = measure_curves(Curves(pools, blind), estimators, errors)[Key("oracle", 4)]
        _, low, high = pair[0].interval("mse", LEVEL)
        inside += low <= exact <= high
    assert shortfall(inside) < 1e-6, inside / TRIALS


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


def test_covariance_square_trace_in_blocks_of_one():
    """No two completions of a block: the bound, E^2 eps^2 ||W||^2."""
    rng = np.random.default_rng(3)
    pools = make_design(rng, prompts=2).draw(rng, 2**6, 8, 1)
    residuals = pools.rewards_PN - pools.value_P[:, None]
    bound = (residuals**2 * pools.norms2_PN).mean(-1) ** 2
    np.testing.assert_allclose(covariance_square_trace(pools), bound, rtol=1e-12)
