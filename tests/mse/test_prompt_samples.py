"""Samples of prompts, by enumeration of those that may be drawn."""

from itertools import product

import numpy as np
import pytest

from mse_lab.mse.prompt_table import PromptSamples, mean_over_prompts


def test_figures_of_drawn_prompts_by_enumeration():
    """Means and means over pairs of different prompts, of all draws of 3 from 3."""
    rng = np.random.default_rng(2)
    apart = rng.standard_normal((3, 3))
    np.fill_diagonal(apart, 0.0)
    left, right = rng.standard_normal((2, 3))
    draws = list(product(range(3), repeat=3))
    counts = np.array([[draw.count(x) for x in range(3)] for draw in draws], float)
    samples = PromptSamples(counts)
    means = samples.means(left)[4:]
    products = samples.mean_products(apart, left, right)[4:]
    for draw, mean, number in zip(draws, means, products, strict=True):
        assert mean == pytest.approx(left[list(draw)].mean())
        pairs = [left[x] * apart[x, y] * right[y] for x in draw for y in draw if x != y]
        assert number == pytest.approx(np.mean(pairs) if pairs else 0.0)


def test_sums_over_the_others_say_what_products_do():
    """Without draws; with each prompt left out, too, of products that are not symmetric."""
    apart = np.random.default_rng(2).standard_normal((5, 5))
    np.fill_diagonal(apart, 0.0)
    samples = PromptSamples.without_draws(5)
    found = samples.mean_of_pairs(apart.sum(1), apart.sum(0))
    ones = np.ones(5)
    np.testing.assert_allclose(found, samples.mean_products(apart, ones, ones))


def test_a_mean_over_prompts_has_the_textbooks_standard_error():
    """1, 2 and 6: mean 3, s^2 = (4 + 1 + 9) / 2 = 7."""
    found = mean_over_prompts(np.array([1.0, 2.0, 6.0]))
    assert (found.value, found.error) == (3, pytest.approx((7 / 3) ** 0.5))
