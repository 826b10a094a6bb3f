"""Units: a gradient of four times the length has sixteen times the squares, and no more.

Whatever is a ratio, a share, a group size or a number of degrees of freedom stays.
"""

from dataclasses import replace

import numpy as np
import pytest

from mse.test_curves import curves_of
from mse_lab.mse.curves import disagreement, measure_curves
from mse_lab.mse.prompt_table import Constants
from mse_lab.mse.reference_noise import aggregate_norm2_error, noise_of_all
from mse_lab.mse.regime import aggregate_place
from simulated import make_design, table_of

LEVEL, SIZES, NAMES = 0.95, (4, 8), ["vanilla", "grpo", "oracle", "best-constant"]


def squares_and_ratios(design):
    """What is in squared units of the gradient, what has none, and what has a reward's."""
    rng = np.random.default_rng(1)
    pools = design.draw(rng, 64, 4, 8)
    curves, *rest = curves_of(pools, NAMES, SIZES, 50, rng)
    squares = [*noise_of_all(pools), aggregate_norm2_error(pools)]
    ratios = [curves.noise.degrees]
    for both in measure_curves(curves, *rest).values():
        ratios.append(disagreement(*both))
        for curve in both:
            for part in ("mse", "bias2", "variance", "slope", "cosine", "scale_free_mse"):
                found = ratios if part in ("slope", "cosine") else squares
                found.append(getattr(curve.point, part))
            for part in ("mse", "scale_free_mse"):
                statistic = curve.statistic(part)
                squares += [*statistic.interval(LEVEL, positive=True), statistic.error]
                ratios.append(statistic.spread.degrees)
    known, moments = table_of(pools), curves.moments
    for name in Constants._fields:
        squares += known.constant(name, LEVEL)
    ratios += [*known.best_group_size(LEVEL), known.effective_prompts]
    ratios.append(known.knows_c1(LEVEL))
    return np.array(squares), np.array(ratios), np.array(aggregate_place(moments))


@pytest.mark.parametrize(
    ("score", "reward", "graded"), [(4, 1, False), (4, 1, True), (1, 4, True)]
)
def test_squares_follow_the_gradient_and_ratios_stay(score, reward, graded):
    design = make_design(np.random.default_rng(0), 8)
    if graded:
        rewards = np.random.default_rng(2).random(design.reward_PC.shape)
        design = replace(design, reward_PC=rewards)
    longer = replace(
        design, score_PCD=score * design.score_PCD, reward_PC=reward * design.reward_PC
    )
    before, after = squares_and_ratios(design), squares_and_ratios(longer)
    for one, other, factor in zip(before, after, (16, 1, reward), strict=True):
        np.testing.assert_allclose(other, factor * one, rtol=1e-9)
