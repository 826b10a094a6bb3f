"""Samples: constants of a population from few completions of each of its prompts."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mse.test_one_pool import (
    NAMES,
    REWARDS,
    enumerate_pools,
    exact_moments,
    expected,
    truth_of,
)
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.laws import find_law
from mse_lab.mse.samples import Samples
from simulated import choose, population

BINARY = REWARDS["rewards 0 and 1"]


def joint_pools(*totals):
    """Every pair of blocks of a prompt, with its probability."""
    for pair in product(*(enumerate_pools(BINARY, total) for total in totals)):
        (one_chance, one), (chance, two) = pair
        yield one_chance * chance, Samples.of([[one, two]])


def law_figures(name, size):
    """||g_hat||^2 and the mean estimate by the law, and <E g_hat, g>."""
    law = find_law(ESTIMATORS[name], size)

    def figures(samples):
        moments = samples.moments
        found, [gradient] = law(moments), samples._gradients
        own = found.slope_alone[0] * moments.gradient2[0]
        return [found.second[0], own, *(found.slope[0] * gradient)]

    return figures


def law_truth(name, size):
    moments, gradient = exact_moments(BINARY)
    found = find_law(ESTIMATORS[name], size)(moments)
    slope = found.slope[0]
    return [found.second[0], slope * moments.gradient2[0], *(slope * gradient)]


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("name", ["grpo-std", "maxrl", "median"])
def test_laws_of_one_pool_are_not_biased(name, size):
    """By every pool of eight: up to G = 5, three completions less."""
    pools = [(chance, Samples.of([one])) for chance, one in enumerate_pools(BINARY, 8)]
    found = expected(pools, law_figures(name, size))
    np.testing.assert_allclose(found, law_truth(name, size), atol=1e-11)


def test_beyond_the_largest_size_nothing_is_said():
    [(_, pool), *_] = enumerate_pools(BINARY, 8)
    law = find_law(ESTIMATORS["grpo-std"], 6)
    with pytest.raises(ValueError, match="9 completions or more"):
        law(Samples.of([pool]).moments)


def test_blocks_of_a_prompt_are_not_biased():
    """Every two blocks, of four and of five completions: moments, and a law of size 5."""
    pools = list(joint_pools(4, 5))
    names = ("gradient2", "trace_oracle", "zeta", "value_variance", "value_norm2")

    def figures(samples):
        return [getattr(samples.moments, name)[0] for name in names]

    truth = dict(zip(NAMES, truth_of(BINARY, 9), strict=False))
    exact = [truth[name] for name in names]
    np.testing.assert_allclose(expected(pools, figures), exact, atol=1e-12)
    found = expected(pools, law_figures("grpo-std", 5))
    np.testing.assert_allclose(found, law_truth("grpo-std", 5), atol=1e-11)


def test_products_between_blocks_gain():
    """Two blocks' squared gradient varies less than half as much as that of one."""

    def squares(samples):
        square = samples.moments.gradient2[0]
        return [square, square**2]

    one = [(chance, Samples.of([pool])) for chance, pool in enumerate_pools(BINARY, 4)]
    spread = []
    for pools in (one, joint_pools(4, 4)):
        mean, square = expected(pools, squares)
        spread.append(square - mean**2)
    assert spread[1] < 0.5 * spread[0]


def test_the_noise_of_blocks_is_that_of_one_over_their_number():
    """So is what learning b* costs."""
    rng = np.random.default_rng(0)
    design = population(rng)
    [one] = choose(design, [np.argmax(design.moments().variance)]).sample(rng, 32)
    alone, blocks = Samples.of([one]), Samples.of([(one, replace(one), replace(one))])
    for noise in (lambda one: one.gradient_noise_P, lambda one: one.moments.learning):
        assert noise(alone) > 0
        np.testing.assert_allclose(noise(blocks), noise(alone) / 3)
