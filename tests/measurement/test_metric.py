"""The metric's measurement: forms without bias, and a whole one of a tiny checkpoint."""

import math
import os
import shutil
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from enumerated import as_completions, enumerate_policy
from mse_lab.errors import InputError
from mse_lab.measurement import metric
from mse_lab.measurement.metric import (
    held_bytes,
    measure_metric,
    minus_hessian,
    price_metric,
    refuse_metric,
    sample_prompts,
)
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.rewards import integer
from mse_lab.run.prepare import load, prepare
from mse_lab.scores import rows
from mse_lab.scores.curvature import add_hessian_products


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
    found, expected = torch.zeros(2, *gradient.shape)
    minus_hessian(subject, 1)(gradient, found)
    add_hessian_products(
        subject.policy,
        tokens,
        as_completions(exact.completions),
        exact.probabilities * (exact.rewards - exact.value),
        gradient,
        expected,
    )
    assert (found * gradient).sum() / (expected * gradient).sum() == pytest.approx(
        -1, abs=0.3
    )


def test_a_curvature_is_not_that_of_the_directions_own_completions(subject_of, monkeypatch):
    """Products of the two would have a bias."""
    drawn = []
    monkeypatch.setattr(metric, "draw_pool", lambda *given: drawn.append(given[1:3]))
    subject = subject_of(kind="curvature")
    minus_hessian(subject, 1)
    with suppress(AttributeError):  # The directions' gradients, of no pool.
        next(metric._draw_directions(subject, 1))
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


def test_vectors_on_the_disk_have_the_same_forms(subject_of, monkeypatch):
    """In slices of 40 columns, of some thousand; as many bytes are held as are said."""
    subject, sizes = subject_of(kind="adam", prompts=4), []
    expected = measure_metric(subject).as_arrays()
    assert held_bytes(subject) == ((3 * 4 + 2 * 6) * 4 * subject.policy.size, 0)
    monkeypatch.setattr(rows, "SLICE", 1000)
    allocate = os.posix_fallocate
    monkeypatch.setattr(
        os, "posix_fallocate", lambda *at: sizes.append(at[2]) or allocate(*at)
    )
    subject.memory.budget = 1000
    found = measure_metric(subject).as_arrays()
    assert held_bytes(subject) == (0, sum(sizes))
    for name, part in expected.items():
        if part.dtype.kind == "f":
            np.testing.assert_allclose(
                found[name], part, rtol=1e-4, atol=1e-5 * abs(part).max()
            )


def test_a_price_counts_every_product_and_prompt(subject_of, monkeypatch):
    """Seconds by a clock that each product moves by one, and the directions by ten."""
    clock = [0.0]
    monkeypatch.setattr(metric.time, "monotonic", lambda: clock[0])

    def tick(seconds):
        clock[0] += seconds

    monkeypatch.setattr(metric, "_draw_directions", lambda *_: tick(10) or iter(()))
    monkeypatch.setattr(metric, "curved", lambda *_: tick(5))
    monkeypatch.setattr(
        metric, "minus_hessian", lambda *_: lambda asked, _: tick(3 + len(asked))
    )
    # Of each of 4 prompts: directions, slices, the graph, and 2 x 1 + 4 products.
    assert price_metric(subject_of(kind="adam", prompts=4)) == 4 * (10 + 5 + 3 + 6)


def test_what_cannot_be_measured_is_refused(subject_of, tmp_path, monkeypatch):
    refuse_metric(subject_of())  # The plain metric needs nothing.
    large = subject_of(kind="curvature")
    large.memory.budget = 1000
    used, (_, takes) = [], held_bytes(large)
    free = SimpleNamespace(free=takes)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: used.append(folder) or free)
    refuse_metric(large)
    # The results' folder is not there yet.
    assert used == [tmp_path]
    free.free -= 1
    with pytest.raises(
        InputError, match=r"metric\.prompts = 5: their vectors take .* GB free"
    ):
        measure_metric(large)
    with pytest.raises(InputError, match=r"optimizer\.pt is missing"):
        subject_of(kind="adam", prompts=4, optimizer=str(tmp_path))  # When it is loaded.


@pytest.mark.parametrize("what", ["gradient", "second derivative"])
def test_what_overflows_is_refused_at_its_first_prompt(subject_of, monkeypatch, what):
    """And not behind the last: each takes minutes of a large model."""
    subject, shown = subject_of(kind="curvature", prompts=4), []
    overflows = {"curvature": lambda *_: lambda asked, products: products.fill_(math.nan)}
    if what == "gradient":
        join = metric.as_vector
        monkeypatch.setattr(metric, "as_vector", lambda *of: join(*of) * math.inf)
        overflows = {}
    first = subject.prompts[sample_prompts(0, 5, 4)[0]].id
    with pytest.raises(InputError, match=f"prompt {first}: a {what} is not finite"):
        measure_metric(subject, lambda *at: shown.append(at), **overflows)
    assert len(shown) == (what != "gradient")
