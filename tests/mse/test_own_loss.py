"""Costs of group sizes of the user's own loss: against laws, and by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mse.test_budget import make_population
from mse_lab.mse.budget import Population
from mse_lab.mse.own_loss import (
    Aim,
    find_aims,
    find_direction,
    is_bracketed,
    own_costs,
    without_batch,
)
from mse_lab.mse.samples import Samples
from mse_lab.probe.training import DEFAULT
from populations import choose, population
from truths import Truth

BUDGET = 1024


def aim(*figures):
    return Aim(*(np.array([figure]) for figure in figures))


def test_the_cost_by_hand():
    """Noise 4 of signal 2 is a scale of 2; the base's 6 of 1 is 6, both along g: 1/3."""
    assert aim(4, 2, 1).cost(aim(6, 1, 1), 100).item() == pytest.approx(1 / 3)
    # With c^2 = 0.9 of g's direction: (2 / 10) / (0.9 (1 + 6 / 10) - 1).
    turned = aim(4, 2, 0.9).cost(aim(6, 1, 1), 10).item()
    assert turned == pytest.approx(0.2 / 0.44)
    # Beyond what its direction allows no number of completions will do.
    assert aim(4, 2, 0.5).cost(aim(6, 1, 1), 10).item() > 1e20


def test_a_signal_that_both_share_cancels_whatever_its_sign():
    assert aim(4, -0.1, 1).cost(aim(6, -0.1, 1), 100).item() == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ("grpo", "grpo"),
        ({"name": "grpo", "length": "token-batch"}, "grpo"),
        ({"name": "grpo-std", "eps": 1e-4}, {"name": "grpo-std", "eps": 1e-4}),
        ({"name": "batch-std", "eps": 1e-4}, "centred"),
        ({"name": "reinforce++", "length": "token-batch"}, "batch-mean"),
        # Divided by each completion's length it is no factor.
        (
            {"name": "batch-std", "length": "sequence"},
            {"name": "batch-std", "length": "sequence"},
        ),
    ],
)
def test_what_is_nearly_constant_in_a_batch_is_left_out(entry, left):
    assert without_batch(entry) == left


def test_costs_of_trls_default_near_the_exact_ones():
    """Of 2,000 prompts with 16 completions each; within 5%, some 4 standard errors."""
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, 2000)
    drawn = Population(Samples.of(choose(design, index).sample(rng, 16)))
    found = own_costs(drawn, DEFAULT.estimator, 8, range(2, 257), BUDGET, binary=True)
    exact = Truth(design).own_costs((2, 4, 6, 8, 13), 8)
    assert max(found) == 13
    for size in (2, 4, 6, 13):
        assert found[size][0] == pytest.approx(exact[size], rel=0.05)
    assert exact[2] > 1.05 * exact[8] > 1.2 * exact[4]


def test_each_law_is_the_one_of_its_estimator():
    """Aims of an enumerable population, against `Truth`, which has its own route."""
    rng = np.random.default_rng(0)
    design = choose(population(np.random.default_rng(1)), np.arange(40))
    drawn = Population(Samples.of(design.sample(rng, 400)))
    truth = Truth(design)
    aims = find_aims(drawn, {"name": "grpo-std", "eps": 1e-4}, [4], binary=True)
    exact = truth.aim("grpo-std(eps=0.0001)", 4)
    assert aims[4].noise[0] / aims[4].signal[0] == pytest.approx(
        exact.noise.item() / exact.signal.item(), rel=0.1
    )


def test_the_best_size_is_bracketed_where_cost_rises_at_the_last():
    rising = np.array([[1.0, 0.9], [1.3, 1.0]])
    assert is_bracketed([4, 13], rising, 256)
    assert not is_bracketed([4, 13], rising.T, 256)
    assert is_bracketed([4, 256], rising.T, 256)


def test_where_an_estimator_points_by_hand():
    """Over all pairs of different prompts, and with one of them left out."""
    pools, pairs = make_population(3).pools, [(0, 1), (0, 2), (1, 2)]
    pools = replace(pools, between_PP=abs(pools.between_PP))
    slope, within = np.array([2.0, 1.0, 0.5]), np.array([3.0, 1.0, 2.0])
    gamma, own = pools.between_PP, pools.reference_product_P
    mean_norm2 = np.mean([slope[x] * slope[y] * gamma[x, y] for x, y in pairs])
    inner = np.mean([(slope[x] + slope[y]) / 2 * gamma[x, y] for x, y in pairs])
    found = find_direction(Population(pools), slope, within)
    assert found.mean_norm2[0] == pytest.approx(mean_norm2)
    cosine2 = inner**2 / mean_norm2 / np.mean([gamma[x, y] for x, y in pairs])
    bias = 2 * (np.mean([1.125, 1.5625, 1.125]) - cosine2)
    assert found.cosine2[0] == pytest.approx(cosine2 - bias)
    assert found.cosine2[1:] == pytest.approx(np.array([1.125, 1.5625, 1.125]) - bias)
    assert found.between[0] == pytest.approx((slope**2 * own).mean() - mean_norm2)
    assert found.within[:2] == pytest.approx((2.0, 1.5))
    assert found.mean_norm2[2] == pytest.approx(2.0 * 0.5 * gamma[0, 2])


def test_few_prompts_weighed_unlike_do_not_lengthen_a_cosine():
    """It is one over all prompts: on average over samples of 30 it is 1 to 0.003.

    The plain ratio is 1.008: larger by the variance of the relative slopes, over 30.
    """
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        gradient_P = np.exp(0.3 * rng.standard_normal(30))
        slope_P = rng.uniform(0.2, 2, 30)
        pools = SimpleNamespace(
            prompts=30,
            gradient_products_PP=np.outer(gradient_P, gradient_P),
            reference_product_P=gradient_P**2,
        )
        found.append(find_direction(Population(pools), slope_P, slope_P).cosine2[0])
    assert np.mean(found) == pytest.approx(1, abs=0.003)
