"""Products of sketches: unbiased, with the stated standard error, whatever the vectors."""

import numpy as np
import pytest
import torch

from mse_lab.mse import one_pool
from mse_lab.scores import sketches
from mse_lab.scores.sketches import Sketch

K, SEEDS = 63, 500


def normal(generator):
    return torch.randn(1000, generator=generator, dtype=torch.float64)


# The hash shifts whole rows of K numbers, so vectors that repeat after K are the hard ones.
VECTORS = {
    "normal": normal,
    "equal numbers": lambda _: torch.ones(1000, dtype=torch.float64),
    "repeating after k": lambda g: normal(g)[:K].repeat(16)[:1000],
    "one number": lambda _: torch.eye(1000, dtype=torch.float64)[77],
    "few rows": lambda g: normal(g) * (abs(torch.arange(1000) - 500) > 500 - K),
}


def sketch(name, vector, seed):
    kept = Sketch({"a": vector, "b": vector}, seed, K)
    kept.add(name, [vector])
    return kept.vector


def products(u, v, fold=lambda vector: vector):
    """<sketch(u), sketch(v)> for many hashes, in units of ||u|| ||v||; and the truth."""
    scale = float(u.norm() * v.norm())
    found = [
        fold(sketch("a", u, seed)) @ fold(sketch("a", v, seed)) / scale
        for seed in range(SEEDS)
    ]
    return np.array(found, dtype=np.float64), float(u @ v) / scale


def assert_unbiased(found, truth, least, most):
    """Mean within four standard errors (6e-5 each); variance within bounds by as much."""
    squares = (found - truth) ** 2
    noise = 4 * squares.std() / np.sqrt(SEEDS)
    assert abs(found.mean() - truth) <= 4 * found.std() / np.sqrt(SEEDS) + 1e-6
    assert least - noise <= squares.mean() <= most + noise


@pytest.mark.parametrize("other", ["itself", "another"])
@pytest.mark.parametrize("name", VECTORS)
def test_products_of_sketches(name, other):
    generator = torch.Generator().manual_seed(0)
    u = VECTORS[name](generator)
    v = u if other == "itself" else normal(generator)
    assert_unbiased(*products(u, v), 0, 4 / K)


def test_products_of_folded_sketches(monkeypatch):
    """Of a ninth of the buckets: as above, and as exact as their number says."""
    monkeypatch.setattr(one_pool, "SKETCHED", 9 * 7)
    monkeypatch.setattr(one_pool, "FOLDED", 7)
    assert one_pool.fold(np.ones(9 * 7)).tolist() == [9] * 7
    generator = torch.Generator().manual_seed(0)
    u, v = VECTORS["normal"](generator), normal(generator)
    for one, other in ((u, u), (u, v), (v[:K].repeat(16)[:1000], u)):
        assert_unbiased(*products(one, other, one_pool.fold), 0.5 / 7, 6 / 7)


def test_parameters_do_not_meet_in_the_mean():
    """Two parameters have hashes of their own: equal ones would add coherently."""
    one = torch.ones(K, dtype=torch.float64)
    found = [sketch("a", one, seed) @ sketch("b", one, seed) / K for seed in range(SEEDS)]
    assert abs(np.mean(found)) <= 4 * np.std(found) / np.sqrt(SEEDS)
    assert np.var(found) > 0.5 / K


@pytest.mark.parametrize("name", ["a", "b"])
def test_rows_that_a_gpu_folds_at_once_are_those_of_the_loop(name, monkeypatch):
    """1,000 numbers in rows of 63, from the beginning of the first row or within one."""
    vector = normal(torch.Generator().manual_seed(0))
    one_by_one = sketch(name, vector, 3)
    monkeypatch.setattr(Sketch, "_together", staticmethod(lambda _: 4))
    np.testing.assert_allclose(sketch(name, vector, 3), one_by_one, rtol=1e-5, atol=1e-5)


def test_places_without_signs_would_be_seen(monkeypatch):
    """Negative control: numbers of one sign meet those of other rows in step."""
    monkeypatch.setattr(sketches, "_signs", lambda _, count: np.ones(count, np.int64))
    with pytest.raises(AssertionError):
        test_products_of_sketches("equal numbers", "itself")
