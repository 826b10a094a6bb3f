"""Reference noise: intervals have the width of what they stand for, no narrower, no wider.

Coverage on one kind of design sees neither an interval that is too wide nor a source of
noise that is small there. So each source is made the largest once: the few completions of
the reference, in which prompts share a gradient or not, the value, the slope. Over 200
runs the mean square of the standard errors is set against the variance of the estimates. A
ratio has a standard error of 0.1 (0.15 where tails are heavy); bounds leave four, and the
first-order formulas their 20%. A false alarm has a probability below 1e-3 for all together,
once for the fixed seeds.
"""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from enumerated import of_two_kinds, prompts_of
from mse.test_curves import curves_of
from mse_lab.mse.curves import measure_curves
from mse_lab.mse.reference_noise import (
    aggregate_norm2_error,
    covariance_square_trace,
    draw_reference_noise,
    gradient2_of_all,
    noise_of_pairs,
    product_spread,
    replicates_with_reference,
)
from simulated import DIMENSIONS, KINDS, Design, make_design, make_pools, norms_only

RUNS = 200


def make_common(prompts, values, along=1.0, noise=0.8, right=1.0):
    """Make prompts with one gradient direction, W = (along (Z - V) + noise s, s), s = +-1.

    V lies between the two `values`; |s| of right completions is `right`.
    """
    value_P = np.random.default_rng(1).uniform(*values, prompts)[:, None]
    z, s = np.array([1, 1, 0, 0.0]), np.array([1, -1, 1, -1.0])
    reward_PC = np.tile(z, (prompts, 1))
    s = np.where(z == 1, right, 1.0) * s
    score_PC = along * (z - value_P) + noise * s
    return Design(
        np.where(z == 1, value_P, 1 - value_P) / 2,
        np.stack([score_PC, np.tile(s, (prompts, 1))], -1),
        reward_PC,
    )


def graded():
    """Make prompts whose right completions are worth 1, and some of them 3."""
    design = make_common(3, (0.12, 0.2), along=0.2, right=0.3)
    parts = design.probability_PC, design.score_PCD, design.reward_PC
    probability, score, reward = (np.repeat(one, 2, axis=1) for one in parts)
    some = np.array([0.8, 0.2] * 4)
    reward[:, 1] = reward[:, 3] = 3
    return Design(probability * some, score, reward)


class Case(NamedTuple):
    """What is drawn, and what is read of it."""

    design: Design  # The prompts.
    names: list[str]  # Estimators.
    sizes: list[int]  # Group sizes.
    # Completions of the reference, blocks, and completions of a block.
    pools: tuple[int, int, int]


CASES = {
    "apart": Case(
        make_design(np.random.default_rng(0), 6, (0.3, 0.7)),
        ["vanilla", "grpo", "oracle", "best-constant"], [2, 8], (16, 32, 8),
    ),
    "common": Case(
        make_common(3, (0.3, 0.8)), ["vanilla", "grpo", "centred"], [2, 8], (256, 128, 8)
    ),
    "alone": Case(
        make_common(1, (0.5, 0.7)), ["vanilla", "centred"], [2], (128, 2048, 2)
    ),
    "rare": Case(
        make_common(3, (0.12, 0.2), noise=0.3), ["maxrl"], [8], (256, 256, 8)
    ),
    # Var(Z) moves with V here, and the law with both.
    "quiet": Case(
        make_common(3, (0.12, 0.2), along=0.2, right=0.3), ["grpo"], [2], (64, 64, 8)
    ),
    # Few completions of the pool, of unlike norms, and a large reference.
    "norms": Case(
        make_design(np.random.default_rng(2), 6), ["vanilla", "best-constant"], [8],
        (1024, 4, 8),
    ),
    # Prompts that are enumerated; of the second right completions are rare.
    "enumerated": Case(
        prompts_of("binary"), ["vanilla", "grpo", "oracle"], [2, 4], (64, 6, 8)
    ),
    "two kinds": Case(
        of_two_kinds([0.1, 0.15, 0.1], [[3.0, 1, 0], [2.0, 3, 1], [2.5, 2, -1]]),
        ["vanilla", "grpo", "oracle"], [2, 4], (64, 6, 8),
    ),
    # Rewards of 0, 1 and 3: their variance moves with their mean.
    "graded": Case(graded(), ["grpo"], [2], (64, 64, 8)),
}  # fmt: skip


@cache
def runs_of(case):
    """Run a case: {(estimator, G, part): the rows of `read` over the runs}."""
    rng, case, found = np.random.default_rng(5), CASES[case], {}
    for _ in range(RUNS):
        pools = case.design.draw(rng, *case.pools)
        drawn = curves_of(pools, case.names, case.sizes, 60, rng)
        for key, (measured, law) in measure_curves(*drawn).items():
            for part, row in read(measured, law).items():
                found.setdefault((*key, part), []).append(row)
    return {key: np.array(rows).T for key, rows in found.items()}


def read(measured, law):
    """Give estimate and standard error of both curves and of their gap."""
    found = {"mse": measured.statistic(), "law": law.statistic()}
    found["gap"] = found["mse"] - found["law"]
    found["scale-free mse"] = measured.statistic("scale_free_mse")
    found["scale-free law"] = law.statistic("scale_free_mse")
    return {part: (one.value, one.error) for part, one in found.items()}


BOTH, SCALE_FREE = ("mse", "law"), ("scale-free mse", "scale-free law")

# In each case what its largest noise moves, and what must not be moved by it.
POINTS = {
    "apart": [
        ("vanilla", 8, "mse"), ("grpo", 8, "mse"), ("oracle", 2, "mse"),
        ("grpo", 2, "law"), ("oracle", 2, "law"), ("oracle", 2, "gap"),
        ("best-constant", 8, "mse"), ("best-constant", 2, "gap"),
    ],
    "common": [
        ("vanilla", 8, "mse"), ("centred", 2, "mse"), ("centred", 2, "law"),
        ("centred", 8, "mse"), ("grpo", 2, "gap"),
    ],
    "alone": [("vanilla", 2, "law"), ("centred", 2, "law"), ("centred", 2, "mse")],
    "quiet": [("grpo", 2, "law"), ("grpo", 2, "gap")],
    "norms": [("best-constant", 8, "law"), ("vanilla", 8, "law"), ("vanilla", 8, "gap")],
    "graded": [("grpo", 2, "law"), ("grpo", 2, "gap")],
    # MaxRL's slope is about 1/V, and its noise common to replicates and law.
    "rare": [("maxrl", 8, "law"), ("maxrl", 8, "gap")],
    "enumerated": [*product(("vanilla", "grpo", "oracle"), (2, 4), (*BOTH, *SCALE_FREE))],
    "two kinds": [*product(("vanilla", "grpo", "oracle"), (2, 4), SCALE_FREE)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "point"),
    [
        pytest.param(case, point, id=f"{case}-{point[0]}-{point[1]}-{point[2]}")
        for case, points in POINTS.items()
        for point in points
    ],
)
def test_standard_errors_are_the_spread_of_estimates(case, point):
    values, errors = runs_of(case)[point]
    assert 0.7 < (errors**2).mean() / values.var(ddof=1) < 1.6


def residuals2(pools):
    """e^2 = eps^2 + Var (1/3 - 1/8), of references of eight, (P, N)."""
    reference_PN = pools.reference_rewards_PN
    mean_P1 = reference_PN.mean(-1, keepdims=True)
    variance_P1 = reference_PN.var(-1, ddof=1, keepdims=True)
    return (pools.rewards_PN - mean_P1) ** 2 + variance_P1 * (1 / 3 - 1 / 8)


def test_trace_of_the_squared_covariance_is_a_mean_over_pairs():
    """Blocks of two: one pair each, (e_1 e_2 K_12)^2."""
    pools = make_pools(2, 8, 5, 2)
    products_PK = residuals2(pools).reshape(2, 5, 2).prod(-1)
    expected = (products_PK * pools.gram_PKGG[:, :, 0, 1] ** 2).mean(-1)
    np.testing.assert_allclose(covariance_square_trace(pools), expected, rtol=1e-12)


def test_without_pairs_the_trace_is_bounded_by_each_prompt_s_own_norms():
    """Blocks of one, or norms only: the squared mean of e^2 ||W||^2."""
    whole = make_pools(2, 8, 5, 2)
    for pools in (make_pools(2, 8, 5, 1), norms_only(whole)):
        expected = (residuals2(pools) * pools.norms2_PN).mean(-1) ** 2
        np.testing.assert_allclose(covariance_square_trace(pools), expected, rtol=1e-12)
    left = covariance_square_trace(norms_only(whole, 0))
    assert left.tolist() == [expected[0], covariance_square_trace(whole)[1]]


def test_halves_of_four_vary_as_the_noise_of_errors_says():
    """<r_A, r_B> where g is zero, over 4,000 references of eight: within a tenth.

    Without the noise of a half's own baseline the prediction would be a third too small.
    """
    rng = np.random.default_rng(0)
    design = independent_design(rng, 2)
    found = [design.draw(rng, 8, 2, 8) for _ in range(4000)]
    products = np.array([pools.reference_product_P for pools in found])
    predicted = np.mean([covariance_square_trace(pools) for pools in found], axis=0) / 4**2
    assert (abs(predicted / (products**2).mean(0) - 1) < 0.1).all()


def test_where_there_is_no_gradient_its_square_varies_by_its_pairs():
    """Right and wrong completions have like scores; 12 prompts, 150 runs: 3%."""
    chances, step = np.array([0.15, 0.15, 0.35, 0.35]), np.array([1.0, 2.0])
    scores = np.array([[1.0], [-1.0], [1.0], [-1.0]]) * step
    alike = (np.stack(12 * [one]) for one in (chances, scores, np.array([1.0, 1, 0, 0])))
    rng, design = np.random.default_rng(5), Design(*alike)
    drawn = [design.draw(rng, 16, 6, 8) for _ in range(150)]
    found = np.array([gradient2_of_all(pools) for pools in drawn])
    said = np.array([noise_of_pairs(pools) for pools in drawn])
    assert 0.85 < found.var() / (said**2).mean() < 1.1
    assert abs(found.mean()) < 4.5 * found.std() / np.sqrt(found.size)


def test_degrees_of_the_references_noise():
    """How the estimate of sum_x tr(Sigma_x^2) varies over 400 pools, within a third."""
    rng, design = np.random.default_rng(0), make_design(np.random.default_rng(0), 6)
    found = [design.draw(rng, 2**12, 8, 16) for _ in range(400)]
    traces = np.array([covariance_square_trace(pools).sum() for pools in found])
    degrees = [draw_reference_noise(pools, 2, rng).degrees for pools in found]
    predicted = (2 * traces**2 / degrees).mean()
    assert 0.75 < predicted / traces.var(ddof=1) < 4 / 3


def test_the_squared_gradient_varies_as_its_noise_says():
    """<r_A, r_B> over 400 references of 512, to first order the gradient's: a third."""
    rng, design = np.random.default_rng(0), make_common(1, (0.4, 0.6))
    found = [design.draw(rng, 512, 16, 8) for _ in range(400)]
    products = np.array([pools.reference_product_P[0] for pools in found])
    predicted = np.mean(
        [
            covariance_square_trace(pools)[0] / 256**2 + 2 * product_spread(pools)[0] / 256
            for pools in found
        ]
    )
    assert 0.75 < predicted / products.var(ddof=1) < 4 / 3


def independent_design(rng, prompts, dimensions=DIMENSIONS):
    """Make prompts whose rewards are independent of their scores: g is zero."""
    score = rng.standard_normal((prompts, KINDS, dimensions))
    score -= score.mean(1, keepdims=True)
    reward = np.repeat([0.0, 1.0], KINDS) * np.ones((prompts, 1))
    probability = np.full(reward.shape, 1 / reward.shape[1])
    return Design(probability, np.concatenate([score, score], axis=1), reward)


@pytest.mark.parametrize("prompts", [1, 5, 40])
def test_standard_error_of_the_aggregates_gradient(prompts):
    """Where g is zero it is no smaller than the spread, and not twice as large."""
    rng = np.random.default_rng(prompts)
    found = []
    for _ in range(150):
        pools = independent_design(rng, prompts).draw(rng, 64, 4, 8)
        found.append((pools.aggregate_norm2, aggregate_norm2_error(pools)))
    norm2, error = np.array(found).T
    # A standard deviation of 150 draws has a relative error of 6% or, skewed, a bit more.
    assert 0.75 * norm2.std() < np.sqrt((error**2).mean()) < 2 * norm2.std()


def test_the_error_of_the_aggregates_norm_by_hand():
    """A prompt's noise meets the other prompts: rows of <r_A - r_B, rbar>, 1+2, 3+5 and 0.

    Rewards that are all alike leave nothing of the prompts' own.
    """
    pools = make_pools(3, 16, 2, 4)
    ones, halves = np.ones_like(pools.rewards_PN), [[7, 1, 2], [3, 7, 5], [0, 0, 7]]
    alike = replace(
        pools,
        rewards_PN=ones,
        reference_rewards_PN=np.ones_like(pools.reference_rewards_PN),
        halves_PP=np.array(halves, float),
    )
    assert aggregate_norm2_error(alike) == pytest.approx(np.sqrt(3**2 + 8**2) / 9)


def test_the_variance_of_skewed_rewards_varies_as_their_fourth_moment_says():
    """(m4 - m2^2)/N, in 8,000 draws: within a tenth."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 3).draw(rng, 64, 2, 4)
    rewards = 3 * rng.exponential(size=pools.reference_rewards_PN.shape)
    skewed = replace(pools, reference_rewards_PN=rewards)
    noise = draw_reference_noise(skewed, 8000, rng).rewards.variance
    m2, m4 = (((rewards - rewards.mean(-1, keepdims=True)) ** k).mean(-1) for k in (2, 4))
    np.testing.assert_allclose(noise.var(0), (m4 - m2**2) / 64, rtol=0.1)


def test_products_that_are_not_known_are_left_out():
    pools = make_pools(3, 8, 2, 8)
    whole, left = gradient2_of_all(pools), gradient2_of_all(norms_only(pools, 1))
    assert left[[0, 2]] == pytest.approx(whole[[0, 2]])
    expected = 16 * pools.reference_product_P + 128 * replicates_with_reference(pools)
    assert left[1] == pytest.approx(expected[1] / 144)
