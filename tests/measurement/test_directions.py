"""Forms of directions by slices: without bias, and in any diagonal metric."""

from itertools import product

import numpy as np
import pytest
import torch

from enumerated import random_enumerated
from exact_forms import Prompt, exact_forms
from mse_lab.measurement.directions import Directions, curved, first_order
from mse_lab.mse.metric_forms import Forms
from mse_lab.scores import rows


@pytest.fixture(autouse=True)
def _single_columns(monkeypatch):
    monkeypatch.setattr(rows, "SLICE", 1)


def with_room(*directions):
    return Directions(*directions, *torch.ones(2, 6, directions[0].shape[1]).double())


def make_directions(seed):
    normal = np.random.default_rng(seed).normal(size=(3, 4, 3))
    return with_room(*torch.tensor(normal))


def forms_of(vectors, scale, place, metric):
    """The mean over all signs, of one direction."""

    def multiply(asked, products):
        products += asked @ metric

    found = [
        curved(vectors, scale, place, torch.tensor([signs]), multiply)
        for signs in product([-1.0, 1.0], repeat=4)
    ]
    return Forms(*np.mean(found, axis=0))


def test_random_signs_leave_no_bias():
    """What each pair gives by itself, in a matrix between two diagonals."""
    vectors, place = make_directions(0), 2
    root = torch.tensor(np.random.default_rng(1).normal(size=(3, 3)))
    metric, scale = root + root.T, torch.tensor([4.0, 1.0, 0.25]).double()
    found = forms_of(vectors, scale, place, metric)
    gradients, noises, pairs, rows, columns, meetings = vars(found).values()
    a, b, z = ((one * scale).numpy() for one in vectors[:3])
    halves, own = a @ metric.numpy() @ b.T, np.diag(b @ metric.numpy() @ b.T)
    np.testing.assert_allclose(gradients, halves.diagonal())
    np.testing.assert_allclose(noises, own - halves.diagonal())
    np.testing.assert_allclose(pairs, np.diag(z @ metric.numpy() @ z.T))
    np.testing.assert_allclose(meetings, halves[:, place])
    apart = halves * (1 - np.eye(4))
    apart[place] = apart[:, place] = 0
    np.testing.assert_allclose(rows, apart.sum(1), atol=1e-12)
    np.testing.assert_allclose(columns, apart.sum(0), atol=1e-12)


def test_a_prompt_s_own_direction_is_no_noise_of_others():
    """It is far larger in a prompt's own curvature: without random signs for it."""
    gradients = []
    for factor in (1, 1000):
        vectors, scale = make_directions(0), torch.ones(3)
        for one in vectors[:3]:
            one[2] *= factor
        signs = torch.ones(1, 4)
        found = curved(vectors, scale, 2, signs, lambda asked, into: into.copy_(asked))
        gradients.append(np.delete(found[0], 2))
    np.testing.assert_allclose(*gradients)


def test_a_diagonal_metric_is_formed_gradients_times_its_root():
    """Held to the Gram matrix of gradients that are scaled one by one."""
    vectors, scale = make_directions(1), torch.tensor([4.0, 1.0, 0.25]).double()
    found = first_order(vectors, scale)
    a, b, z = ((one * scale.sqrt()).numpy() for one in vectors[:3])
    halves = a @ b.T
    np.testing.assert_allclose(found.gradients_KP[0], halves.diagonal())
    np.testing.assert_allclose(
        found.noises_KP[0], (b**2).sum(1) - halves.diagonal(), rtol=1e-12
    )
    np.testing.assert_allclose(found.pairs_KP[0], (z**2).sum(1))
    apart = halves * (1 - np.eye(4))
    np.testing.assert_allclose(found.rows_KP[0], apart.sum(1))
    np.testing.assert_allclose(found.columns_KP[0], apart.sum(0))


def test_the_exact_forms_of_the_tests_are_those_of_exact_directions():
    """g_A = g_B = g, and no other noise than the pairs'."""
    rng = np.random.default_rng(0)
    prompts = [Prompt.of(random_enumerated(rng)) for _ in range(4)]
    g = torch.tensor(np.array([one.gradient for one in prompts]))
    vectors = with_room(g, g, torch.zeros_like(g))
    exact = exact_forms(prompts, 2)
    for place, prompt in enumerate(prompts):
        found = forms_of(
            vectors, torch.ones(len(g[0])), place, torch.tensor(-prompt.hessian)
        )
        for name in ("gradients_KP", "rows_KP", "columns_KP", "meetings_KP"):
            expected = getattr(exact, name)[place]
            np.testing.assert_allclose(getattr(found, name), expected, atol=1e-12)
