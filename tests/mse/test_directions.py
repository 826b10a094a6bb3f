"""Where an estimator points over random prompts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mse.test_budget import make_population
from mse_lab.mse.budget import Population
from mse_lab.mse.directions import find_direction


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
