"""Progress: against a quadratic reward on enumerated policies, and by hand."""

import math

import numpy as np
import pytest

from enumerated import random_enumerated
from mse_lab.estimators import find_estimator
from mse_lab.mse import loss as subject
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import (
    Aim,
    find_aims,
    halved_step_size,
    noise_scale,
    progress,
    steps_ratio,
)
from mse_lab.mse.prompt_table import PromptSamples
from simulated import exact_table, known_table

LEVEL = 0.95


def best_gain(some, estimator, size, batch):
    """The largest gain of a quadratic J along a batch's gradient, over the true one's.

    J rises by eta <g, d> - eta^2 kappa ||d||^2 / 2 along a step eta d; enumerated groups.
    """
    mean_PD, gradient_PD = some.mean_estimate(estimator, size), some.gradient_PD
    inner_P = ((2 * mean_PD - gradient_PD) * gradient_PD).sum(-1)
    mean, gradient = mean_PD.mean(0), gradient_PD.mean(0)
    second = (some.mse(estimator, size) + inner_P).mean()
    second = second / batch + (1 - 1 / batch) * mean @ mean
    eta = np.linspace(0, 2, 200_001) * (mean @ gradient / second)
    gains = eta * (mean @ gradient) - eta**2 / 2 * second
    return gains.max() / (gradient @ gradient / 2)


AFFINE = [
    {"name": "affine", "alpha": alpha, "lambda": part}
    for alpha, part in ((0.3, 0.0), (0.1, 0.4), (-0.2, 1.3))
]


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("batch", [1, 8, 400])
@pytest.mark.parametrize("name", ["vanilla", "grpo", "grpo-std", "maxrl", *AFFINE], ids=str)
def test_the_gain_at_the_best_step_is_the_law(monkeypatch, name, size, batch):
    """Of prompts that are all there are, so that no ratio has a bias."""
    monkeypatch.setattr(PromptSamples, "without_bias", lambda _, ratio: ratio)
    some = random_enumerated(np.random.default_rng(3), 4)
    [aim] = find_aims(exact_table(some), name, [size]).values()
    completions = batch * size
    share = completions * aim.gradient2 / aim.cost(completions)
    gain = best_gain(some, find_estimator(name), size, batch)
    assert share[0] == pytest.approx(gain, rel=1e-6)
    assert 0 < gain < 1


def table(**more):
    """c1 20, c2 194, c3 262: the noise is 20 G + 194 + 262/(G-1), 331.4 at G = 4."""
    return known_table(20.0, 194.0, 262.0, **more)


def grpo(known, size):
    return find_aims(known, "grpo", [size])[size]


def test_by_hand():
    known = table(gradient2=2.0)
    four, sixteen = grpo(known, 4), grpo(known, 16)
    assert four.noise[0] == pytest.approx(80 + 194 + 262 / 3)
    scale = noise_scale(known, four, LEVEL).value
    assert scale == pytest.approx((274 + 262 / 3) / 2)
    assert progress(known, four, scale, LEVEL).value == pytest.approx(0.5)
    assert progress(known, four, 3 * scale, LEVEL).value == pytest.approx(0.75)
    ratio = steps_ratio(known, sixteen, four, 128, LEVEL).value
    expected = (256 + (320 + 194 + 262 / 15)) / (256 + (274 + 262 / 3))
    assert ratio == pytest.approx(expected)


def test_a_biased_estimators_progress_by_hand():
    """c^2 / (1 + noise / (N ||hbar||^2)) = 0.5 / (1 + 12 / (2 * 3))."""
    known = table(gradient2=2.0)
    figures = (np.full_like(known.samples.c1, one) for one in (12, 3, 2, 0.5))
    assert progress(known, Aim(*figures), 2, LEVEL).value == pytest.approx(0.5 / 3)


def test_the_step_size_follows_one_plus_the_error():
    """Halving a batch of N = ns: (1 + 1) / (1 + 2) for SGD, its root for Adam."""
    known = table(gradient2=2.0)
    aim = grpo(known, 4)
    scale = noise_scale(known, aim, LEVEL).value
    adam = halved_step_size(known, aim, scale, LEVEL)
    assert adam.value == pytest.approx(math.sqrt(2 / 3))


def test_a_step_size_ratio_is_not_below_its_limit():
    """As of few prompts, whose error may be estimated so: its root would be no number."""
    known = table(gradient2=-0.1)
    aim = grpo(known, 4)
    below = aim._replace(noise=-aim.noise)
    found = halved_step_size(known, below, 8, LEVEL)
    assert found == Estimate(math.sqrt(0.5), math.sqrt(0.5), 1.0)


@pytest.mark.parametrize(
    ("at_n", "limit", "found"),
    [
        # It lies between 1 and the ratio of completions, whatever its own interval says.
        ((1.2, 0.9, 1.6), (1.5, 1.1, 2.0), (1.2, 1.0, 1.6)),
        ((1.2, 0.9, 2.2), (1.5, 0.8, 2.0), (1.2, 0.9, 2.0)),
        ((0.8, 0.4, 1.4), (0.7, 0.5, 0.9), (0.8, 0.5, 1.0)),
    ],
)
def test_a_ratio_of_steps_is_bounded_by_that_of_completions(
    monkeypatch, at_n, limit, found
):
    ratios = iter([Estimate(*at_n), Estimate(*limit)])
    monkeypatch.setattr(subject, "ratio_of_costs", lambda *_: next(ratios))
    known = table()
    assert steps_ratio(known, grpo(known, 16), grpo(known, 4), 64, LEVEL) == found


def test_without_a_known_gradient_only_the_two_limits_are():
    known = table(gradient2=-0.1)
    limit = steps_ratio(known, grpo(known, 16), grpo(known, 4), 0, LEVEL).high
    found = steps_ratio(known, grpo(known, 16), grpo(known, 4), 1024, LEVEL)
    assert math.isnan(found.value)
    assert found[1:] == (1.0, limit)
    aim = grpo(known, 4)
    halved = halved_step_size(known, aim, 64, LEVEL)
    assert (halved.low, halved.high) == (math.sqrt(0.5), 1.0)
    assert progress(known, aim, 64, LEVEL).low == 0
