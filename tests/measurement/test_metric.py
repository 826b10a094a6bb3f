"""The metric's measurement: forms without bias, and a whole one of a tiny checkpoint."""

from contextlib import suppress
from itertools import product

import numpy as np
import pytest
import torch

from enumerated import as_completions, enumerate_policy, random_enumerated
from exact_forms import Prompt, exact_forms
from mse_lab.errors import InputError
from mse_lab.measurement import metric
from mse_lab.measurement.metric import (
    Directions,
    _curved,
    _first_order,
    measure_metric,
    minus_hessian,
    refuse_metric,
    sample_prompts,
)
from mse_lab.mse.metric_forms import Forms
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.rewards import integer
from mse_lab.run.prepare import load, prepare
from mse_lab.scores.curvature import weighted_hessian_products


def make_directions(seed):
    return Directions(*torch.tensor(np.random.default_rng(seed).normal(size=(3, 4, 3))))


def test_random_signs_leave_no_bias():
    """The mean over all signs, of one direction: what each pair gives by itself."""
    vectors, place = make_directions(0), 2
    root = torch.tensor(np.random.default_rng(1).normal(size=(3, 3)))
    metric = root + root.T

    def multiply(vectors_KD):
        return vectors_KD @ metric

    found = [
        _curved(vectors, place, torch.tensor([signs], dtype=torch.float64), multiply)
        for signs in product([-1.0, 1.0], repeat=4)
    ]
    gradients, noises, pairs, rows, columns, meetings = np.mean(found, axis=0)
    a, b, z = (one.numpy() for one in vectors)
    halves, own = a @ metric.numpy() @ b.T, np.diag(b @ metric.numpy() @ b.T)
    np.testing.assert_allclose(gradients, halves.diagonal())
    np.testing.assert_allclose(noises, own - halves.diagonal())
    np.testing.assert_allclose(pairs, np.diag(z @ metric.numpy() @ z.T))
    np.testing.assert_allclose(meetings, halves[:, place])
    apart = halves * (1 - np.eye(4))
    apart[place] = apart[:, place] = 0
    np.testing.assert_allclose(rows, apart.sum(1), atol=1e-12)
    np.testing.assert_allclose(columns, apart.sum(0), atol=1e-12)


def test_a_diagonal_metric_is_formed_gradients_times_its_root():
    """Held to the Gram matrix of gradients that are scaled one by one."""
    vectors, scale = make_directions(1), torch.tensor([4.0, 1.0, 0.25]).double()
    found = _first_order(vectors, scale)
    a, b, z = ((one * scale.sqrt()).numpy() for one in vectors)
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
    vectors = Directions(g, g, torch.zeros_like(g))
    exact = exact_forms(prompts, 2)
    for place, prompt in enumerate(prompts):
        curvature = torch.tensor(-prompt.hessian)
        by_sign = [
            _curved(
                vectors,
                place,
                torch.tensor([signs], dtype=torch.float64),
                lambda one, metric=curvature: one @ metric,
            )
            for signs in product([-1.0, 1.0], repeat=4)
        ]
        found = Forms(*np.mean(by_sign, axis=0))
        for name in ("gradients_KP", "rows_KP", "columns_KP", "meetings_KP"):
            expected = getattr(exact, name)[place]
            np.testing.assert_allclose(getattr(found, name), expected, atol=1e-12)


@pytest.fixture
def subject_of(write_probe, tmp_path):
    def make(**metric):
        probe = load_probe(write_probe(metric={"completions": 256, "repeats": 1, **metric}))
        return load(prepare("small", probe, tmp_path / "out", tmp_path)).subject

    return make


def test_the_metric_is_minus_the_hessian_of_the_value(subject_of):
    """Along a prompt's enumerated gradient, from 4,096 completions, seed fixed."""
    subject = subject_of(kind="curvature", completions=4096)
    record, tokens = subject.prompts[1].record, subject.tokens[1]

    def reward(drawn):
        return integer(subject.policy.decode(list(drawn)), record)

    exact = enumerate_policy(subject.policy, tokens, 4, 2, reward)
    gradient = torch.tensor(exact.gradient[None], dtype=torch.float32)
    found = (minus_hessian(subject, 1)(gradient) * gradient).sum()
    expected = weighted_hessian_products(
        subject.policy,
        tokens,
        as_completions(exact.completions),
        exact.probabilities * (exact.rewards - exact.value),
        gradient,
    )
    assert found / (expected * gradient).sum() == pytest.approx(-1, abs=0.3)


def test_a_curvature_is_not_that_of_the_directions_own_completions(subject_of, monkeypatch):
    """Products of the two would have a bias."""
    drawn = []
    monkeypatch.setattr(metric, "draw_pool", lambda *given: drawn.append(given[1:3]))
    for draw in (metric._draw_directions, minus_hessian):
        with suppress(AttributeError):  # The directions' gradients, of no pool.
            draw(subject_of(kind="curvature"), 1)
    assert len({*drawn}) == 2


def test_a_whole_measurement_is_repeatable_and_of_the_right_shape(subject_of):
    shown = []
    subject = subject_of(kind="curvature", prompts=4)
    pools = measure_metric(subject, lambda *at: shown.append(at))
    assert shown == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert pools.prompts_P.tolist() == sample_prompts(0, 5, 4).tolist()
    assert pools.half == 128
    assert {part.shape for part in vars(pools.curved).values()} == {(4, 4)}
    assert pools.curved.pairs_KP.any()
    again = measure_metric(subject)
    for name, part in pools.as_arrays().items():
        np.testing.assert_array_equal(part, again.as_arrays()[name])


def test_behind_adam_every_moving_parameter_counts_alike(subject_of):
    """D = 1/rms over the 2 P halves: sum over halves of g' D^2 g is 2 P x parameters.

    Held in the curvature's directions, which are scaled by D once more than here.
    """
    first = measure_metric(subject_of(kind="adam", prompts=4)).first
    plain = measure_metric(subject_of(kind="curvature", prompts=4)).first
    lengths, before = (one.gradients_KP + one.noises_KP for one in (first, plain))
    assert (lengths >= 0).all()
    assert lengths.sum() > before.sum()


def test_a_state_that_scales_nothing_changes_nothing(subject_of, tmp_path):
    """After one step along gradients of ones D is one everywhere, and Adam is SGD."""
    subject = subject_of(kind="curvature", prompts=4)
    parameters = [one.detach().clone() for one in subject.policy.parameters.values()]
    groups = [[one for one in parameters if (one.dim() > 1) == many] for many in (1, 0)]
    optimizer = torch.optim.AdamW([{"params": group} for group in groups])
    for one in parameters:
        one.grad = torch.ones_like(one)
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    plain = measure_metric(subject)
    found = measure_metric(subject_of(kind="adam", prompts=4, optimizer=str(tmp_path)))
    for name in ("curved", "first"):
        for one, other in zip(
            vars(getattr(found, name)).values(),
            vars(getattr(plain, name)).values(),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * abs(other).max())


def test_what_cannot_be_measured_is_refused(subject_of, tmp_path):
    refuse_metric(subject_of())  # The plain metric needs nothing.
    large = subject_of(kind="curvature")
    large.memory.budget = 1000
    with pytest.raises(InputError, match=r"metric\.prompts = 5: their vectors take"):
        refuse_metric(large)
    with pytest.raises(InputError, match=r"optimizer\.pt is missing"):
        subject_of(kind="adam", prompts=4, optimizer=str(tmp_path))  # When it is loaded.
