"""Curves: which points there are, and what moves them."""

import numpy as np

from mse_lab.estimators import find_estimators
from mse_lab.mse.curves import Curves, law_curves, law_sizes, measure_curves, paired_ratio
from mse_lab.mse.reference_noise import ReferenceNoise, RewardNoise, draw_reference_noise
from mse_lab.mse.replicates import Key, measure_errors
from simulated import make_design

BIASED = ["centred", "grpo-std", "maxrl", "quantile"]
SIZES = [4, 16]


def curves_of(design, rng, names, reference=256, blocks=4, largest=16):
    pools = design.draw(rng, reference, blocks, largest)
    estimators = find_estimators(names, SIZES)
    errors = measure_errors(pools, estimators, SIZES)
    return pools, Curves(pools, draw_reference_noise(pools, 300, rng)), estimators, errors


def test_no_aggregate_for_a_bias_without_a_cheap_form():
    rng = np.random.default_rng(0)
    _, curves, estimators, errors = curves_of(make_design(rng), rng, ["opo", "reinforce++"])
    assert all(
        pair == (None, None) for pair in measure_curves(curves, estimators, errors).values()
    )


def test_laws_reach_1024():
    rng = np.random.default_rng(0)
    _, curves, estimators, _ = curves_of(
        make_design(rng, prompts=4), rng, ["grpo", "maxrl"]
    )
    powers = [2**k for k in range(1, 11)]
    assert law_sizes(estimators[0], [3, 12]) == sorted([3, 12, *powers])
    points = dict(law_curves(curves, estimators, SIZES))
    assert np.isfinite(points[Key("maxrl", 1024)].point.mse)


def test_every_part_moves_with_the_errors_of_groups_as_is_said():
    """To first order; what does not depend on the replicates has no noise of theirs."""
    rng = np.random.default_rng(0)
    _, curves, [estimator], errors = curves_of(make_design(rng, 6), rng, ["grpo-std"])
    errors_PR = errors[Key("grpo-std", 4)]
    lower, curve, higher = (
        curves.measured(estimator, 4, errors_PR + step) for step in (-1e-4, 0, 1e-4)
    )
    for part in ("mse", "scale_free_mse"):
        moved = getattr(higher.point, part) - getattr(lower.point, part)
        # A group's error is part of the mean over P prompts and the groups of its own.
        shares = 6**2 * curve.statistic(part).groups[curves.run] / errors_PR
        np.testing.assert_allclose(shares, 6 * moved / 2e-4, rtol=1e-5, atol=1e-7)


def test_the_aggregates_law_of_one_prompt_is_that_prompts():
    rng = np.random.default_rng(1)
    design = make_design(rng, 1, (0.3, 0.4))
    _, curves, estimators, _ = curves_of(design, rng, ["grpo", *BIASED], reference=16)
    for estimator in estimators:
        law = curves.by_law(estimator, 4).point.mse
        np.testing.assert_allclose(curves.prompts_by_law(estimator, 4), law, rtol=1e-12)


def test_the_noise_of_v_moves_the_mse_of_what_knows_v_alone():
    """With baseline V + d the oracle's G MSE is larger by S (2 V d + d^2) - 2 B d.

    S Var(V), the mean of S d^2, is taken off the replicates already.
    """
    rng, names = np.random.default_rng(0), ["grpo", "oracle", "vanilla"]
    pools, curves, estimators, errors = curves_of(make_design(rng, 6), rng, names)
    one, shift_BP = curves.moments, curves.noise.rewards.value
    nothing, ones = np.zeros_like(shift_BP), np.ones_like(shift_BP)
    rewards = RewardNoise(shift_BP, nothing, ones, ones)
    noise = ReferenceNoise(nothing, nothing, nothing, rewards, np.inf)
    added_BP = one.norm2 * (2 * one.value + shift_BP) - 2 * one.reward_norm2
    price_P = one.value_variance * one.norm2
    expected_B = (added_BP * shift_BP - price_P).sum(-1) / 6**2
    for key, (measured, _) in measure_curves(
        Curves(pools, noise), estimators, errors
    ).items():
        moved_B = np.broadcast_to(measured.noise.mse - measured.point.mse, len(shift_BP))
        knows = key.estimator == "oracle"
        np.testing.assert_allclose(
            moved_B, knows * expected_B / key.group_size, rtol=1e-9, atol=1e-12
        )


def test_a_paired_ratio_is_that_of_known_numbers_and_else_nothing():
    rng = np.random.default_rng(0)
    _, curves, estimators, errors = curves_of(make_design(rng, 6), rng, ["grpo", "oracle"])
    points = measure_curves(curves, estimators, errors)
    grpo, oracle = (points[Key(one.name, 4)].measured for one in estimators)
    value, low, high = paired_ratio(grpo, oracle, 0.95)
    assert value == float(grpo.point.mse) / float(oracle.point.mse)
    assert low < value < high
    errors_PR = errors[Key("oracle", 4)]
    zero = curves.measured(estimators[1], 4, errors_PR - errors_PR.mean())
    for pair in ((grpo, None), (None, oracle), (grpo, zero)):
        assert paired_ratio(*pair, 0.95) is None


def test_the_scale_of_a_drawn_half_is_unbiased():
    """Means of 40,000 draws of halves of four; six standard errors of what they vary by."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 5).draw(rng, 8, 2, 4)
    noise = draw_reference_noise(pools, 40_000, rng).rewards
    known = (pools.value_P > 0) & (pools.value_P < 1)
    assert known.sum() > 1
    for drawn in (noise.mean[:, known], noise.product[:, known]):
        error = drawn.std(0) / np.sqrt(len(drawn))
        assert (abs(drawn.mean(0) - 1) < 6 * error).all()
