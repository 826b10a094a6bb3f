"""Costs of group sizes of the user's own loss: against enumerated prompts, and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.config.training import DEFAULT
from mse_lab.mse.loss import (
    Aim,
    find_aims,
    is_bracketed,
    is_constant,
    is_unbiased,
    up_to_a_factor,
)
from mse_lab.mse.samples import Samples
from simulated import choose, exact_table, make_design, make_pools, population, table_of


def aim(noise, signal, gradient2, cosine2):
    figures = (noise, signal, gradient2, cosine2)
    return Aim(*(None if one is None else np.array([one]) for one in figures))


@pytest.mark.parametrize(
    ("figures", "completions", "cost"),
    [
        ((4, 2, 2, None), 100, 4 + 100 * 2),
        ((4, 2, 2, None), 0, 4),
        ((4, 2, 3, 0.9), 10, 3 * (10 + 2) / 0.9),  # A noise scale of 4 / 2.
        ((4, 2, 3, 0.9), 0, 3 * 2 / 0.9),
        ((4, -0.1, -0.1, None), 100, 4),  # No square is negative.
    ],
)
def test_the_cost_by_hand(figures, completions, cost):
    assert aim(*figures).cost(completions).item() == pytest.approx(cost)


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ("grpo", "grpo"),
        ({"name": "grpo", "length": "token-batch"}, "grpo"),
        ({"name": "grpo-std", "eps": 1e-4}, {"name": "grpo-std", "eps": 1e-4}),
        ({"name": "batch-std", "eps": 1e-4}, "grpo"),
        ("centred", "grpo"),
        ({"name": "reinforce++", "length": "token-batch"}, "batch-mean"),
        # Divided by each completion's length it is no factor.
        (
            {"name": "batch-std", "length": "sequence"},
            {"name": "batch-std", "length": "sequence"},
        ),
    ],
)
def test_what_is_a_factor_or_nearly_constant_in_a_batch_is_left_out(entry, left):
    assert up_to_a_factor(entry) == left


@pytest.mark.parametrize("values", [(-1.0, 0.0), (-1.0, 1.0)], ids=str)
@pytest.mark.parametrize("few", [False, True], ids=["a run", "few completions"])
def test_rewards_of_two_values_have_the_costs_of_0_and_1(values, few):
    """What divides by their spread is the same vector, up to the eps: to 0.1%."""
    plain, costs = population(np.random.default_rng(1)), {}
    for low, high in ((0.0, 1.0), values):
        rng = np.random.default_rng(0)
        design = choose(plain, np.arange(40))
        design = replace(design, reward_PC=low + (high - low) * design.reward_PC)
        drawn = Samples.of(design.sample(rng, 16)) if few else design.draw(rng, 256, 2, 16)
        found = find_aims(table_of(drawn), DEFAULT.estimator, [4, 8])
        costs[low, high] = found[4].cost(0)[0] / found[8].cost(0)[0]
    assert costs[values] == pytest.approx(costs[0, 1], rel=1e-3)


def test_a_loss_without_a_law_has_no_cost():
    table = replace(exact_table(make_design(np.random.default_rng(0), 8)), values=None)
    assert find_aims(table, {"name": "grpo-std", "eps": 1e-4}, [4]) == {}
    assert set(find_aims(table, "grpo", [1, 2])) == {2}


def test_only_a_constant_baseline_needs_no_group():
    table = exact_table(make_design(np.random.default_rng(0), 8))
    for part, sizes in ((0.0, [1, 2, 5]), (0.4, [2, 5])):
        entry = {"name": "affine", "alpha": 0.3, "lambda": part}
        assert [*find_aims(table, entry, [1, 2, 5])] == sizes
        assert is_constant(entry) == (not part)


@pytest.mark.parametrize("weight", ["score", "logits"])
@pytest.mark.parametrize("few", [False, True], ids=["a run", "few completions"])
def test_what_a_large_batch_weights_is_one_constant(few, weight):
    """Sum s Z / sum s of all completions; the simulated logits' norms are ||W||."""
    rng = np.random.default_rng(1)
    design = choose(population(rng), np.arange(30))
    drawn = Samples.of(design.sample(rng, 8)) if few else design.draw(rng, 64, 4, 8)
    entry = {"name": "norm-weighted", "weight": weight, "over": "batch"}
    if few:
        rewards = np.concatenate(drawn.rewards)
        norms2 = np.concatenate([np.diag(one.gram_KK) for [one] in drawn.blocks])
    else:
        rewards, norms2 = drawn.rewards_PN.ravel(), drawn.norms2_PN.ravel()
    by = norms2 if weight == "score" else np.sqrt(norms2)
    alpha = float(by @ rewards / by.sum())
    table = table_of(drawn)
    aims = find_aims(table, entry, [1, 4])
    expected = find_aims(table, {"name": "constant", "alpha": alpha}, [1, 4])
    for size, aim in aims.items():
        assert aim.noise[0] == pytest.approx(expected[size].noise[0])
        assert aim.noise[1] != pytest.approx(expected[size].noise[1], rel=1e-9)
        assert aim.in_epochs.noise[0] == pytest.approx(expected[size].in_epochs.noise[0])
    assert [*aims] == [1, 4]
    assert is_constant(entry)
    assert is_unbiased(entry)
    assert not is_constant(entry | {"over": "group"})
    assert find_aims(table, entry | {"weight": "length"}, [1]) == {}


def test_logits_that_nobody_recorded_give_no_price():
    pools = make_pools(5, 8, 2, 4)
    table = table_of(replace(pools, logit_norms2_PN=np.full((5, 8), np.nan)))
    entry = {"name": "norm-weighted", "weight": "logits", "over": "batch"}
    assert find_aims(table, entry, [1]) == {}


def test_the_best_size_is_bracketed_where_cost_rises_at_the_last():
    rising = np.array([[1.0, 0.9], [1.3, 1.0]])
    assert is_bracketed([4, 13], rising, 256)
    assert not is_bracketed([4, 13], rising.T, 256)
    # Whatever their order, what is the largest of all brackets.
    assert is_bracketed([4, 256], rising.T, 256)


def test_where_an_estimator_points_by_hand():
    """Over all pairs of different prompts, and with one of them left out."""
    pairs, pools = [(0, 1), (0, 2), (1, 2)], make_pools(3, 256, 2, 4, seed=1)
    pools = replace(pools, between_PP=abs(pools.between_PP))
    slope, within = np.array([2.0, 1.0, 0.5]), np.array([3.0, 1.0, 2.0])
    table, gamma = table_of(pools), pools.between_PP
    mean_norm2 = np.mean([slope[x] * slope[y] * gamma[x, y] for x, y in pairs])
    inner = np.mean([(slope[x] + slope[y]) / 2 * gamma[x, y] for x, y in pairs])
    products = table.mean_products(slope, slope), table.mean_products(slope, np.ones(3))
    norm2 = slope**2 * table.moments.gradient2
    found = Aim.of_means(table, *products, norm2, within, 4)
    assert found.signal[0] == pytest.approx(mean_norm2)
    cosine2 = inner**2 / mean_norm2 / np.mean([gamma[x, y] for x, y in pairs])
    bias = 2 * (np.mean([1.125, 1.5625, 1.125]) - cosine2)
    assert found.cosine2[0] == pytest.approx(cosine2 - bias)
    assert found.cosine2[1:] == pytest.approx(np.array([1.125, 1.5625, 1.125]) - bias)
    between = norm2.mean() - mean_norm2
    assert found.between[0] == pytest.approx(4 * max(between, 0))
    assert found.in_epochs.noise[:2] == pytest.approx((4 * 2.0, 4 * 1.5))
    assert found.signal[2] == pytest.approx(2.0 * 0.5 * gamma[0, 2])
