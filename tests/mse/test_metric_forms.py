"""Noise in the metric that training feels: constants exact by enumeration."""

import math
from itertools import product

import numpy as np
import pytest

from enumerated import random_enumerated
from exact_forms import Prompt, exact_forms
from mse_lab.mse.metric_forms import metric_constants, pair_weights
from mse_lab.studies.theory.bandit import crossed, opposed, worded

HALF = 3
GRADED = (1.0, 0.0, 0.3, 0.0)


@pytest.fixture(scope="module")
def policy():
    return random_enumerated(np.random.default_rng(0), rewards=GRADED)


@pytest.mark.parametrize("count", [4, 6])
def test_pairs_have_the_second_moment_of_c3(policy, count):
    exact = Prompt.of(policy).pairs
    found = np.zeros_like(exact)
    for kinds in map(list, product(range(4), repeat=count)):
        z = pair_weights(policy.rewards[kinds]) @ policy.scores[kinds]
        found += policy.probabilities[kinds].prod() * np.outer(z, z)
    np.testing.assert_allclose(found, exact, atol=1e-12)


def make_prompts(count):
    rng = np.random.default_rng(3)
    return [Prompt.of(random_enumerated(rng, rewards=GRADED)) for _ in range(count)]


def true_constants(directions, curvature):
    """Traces with the matrices C1, C2, C3 themselves, prompts equally likely."""
    gradients = np.array([one.gradient for one in directions])
    metric = -np.mean([one.hessian for one in curvature], axis=0)
    between = np.cov(gradients.T, bias=True)
    oracle = np.mean([one.oracle for one in directions], axis=0)
    pairs = np.mean([one.pairs for one in directions], axis=0)
    return [np.trace(metric @ part) for part in (between, oracle, pairs)]


def test_constants_are_without_bias_on_prompts_that_are_not_trained_on():
    kinds = make_prompts(3)
    found = [
        metric_constants(exact_forms([kinds[i] for i in chosen], HALF), HALF)
        for chosen in product(range(3), repeat=4)
    ]
    means = np.mean([[column[0] for column in one] for one in found], axis=0)
    np.testing.assert_allclose(means, true_constants(kinds, kinds), rtol=1e-10)


def test_constants_are_without_bias_on_the_training_set():
    """A set of four, all of them sampled, each of which meets its own curvature."""
    kinds, found, exact = make_prompts(3), [], []
    for chosen in product(range(3), repeat=4):
        trained = [kinds[i] for i in chosen]
        one = metric_constants(exact_forms(trained, HALF), HALF, trained=4)
        found.append([column[0] for column in one])
        exact.append(true_constants(trained, trained))
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(exact, axis=0), rtol=1e-10)


@pytest.mark.parametrize(
    ("fixed", "trained"), [(False, math.inf), (False, 7), (True, math.inf)]
)
def test_a_prompt_is_left_out_of_every_role(fixed, trained):
    prompts = make_prompts(6)
    metric = np.diag([1.0, 2.0, 0.5]) if fixed else None
    whole = metric_constants(exact_forms(prompts, HALF, metric), HALF, trained)
    for place in range(len(prompts)):
        fewer = [*prompts[:place], *prompts[place + 1 :]]
        expected = metric_constants(exact_forms(fewer, HALF, metric), HALF, trained)
        for column, others in zip(whole, expected, strict=True):
            assert column[1 + place] == pytest.approx(others[0], rel=1e-9)


def test_a_fixed_metric_gives_the_plain_constants():
    """In the metric 1: the squared lengths that `budget.py` has."""
    prompts = make_prompts(5)
    c1, c2, c3 = metric_constants(exact_forms(prompts, HALF, np.eye(3)), HALF)
    gradients = np.array([one.gradient for one in prompts])
    assert c1[0] == pytest.approx(gradients.var(0, ddof=1).sum())
    assert c2[0] == pytest.approx(np.mean([np.trace(one.oracle) for one in prompts]))
    assert c3[0] == pytest.approx(np.mean([np.trace(one.pairs) for one in prompts]))


def bandit_prompts(bandit, theta):
    point = bandit.at(theta)
    return [
        Prompt.made(probabilities, rewards, scores)
        for probabilities, rewards, scores in zip(
            point.probabilities_PK, bandit.rewards_PK, point.scores_PKD, strict=True
        )
    ]


def best_sizes(bandit, theta):
    """Plain and felt G*, exactly."""
    prompts = bandit_prompts(bandit, theta)
    gradients = np.array([one.gradient for one in prompts])
    between = np.cov(gradients.T, bias=True)
    pairs = np.mean([one.pairs for one in prompts], axis=0)
    curvature = -np.mean([one.hessian for one in prompts], axis=0)
    metrics = np.eye(len(between)), curvature
    return [
        1 + math.sqrt(np.trace(metric @ pairs) / np.trace(metric @ between))
        for metric in metrics
    ]


def alike():
    return opposed([0.8, 0.8], [0.0, 0.0], 5)


def unlike():
    return crossed([0.8, 0.7], 5, 1.5)


@pytest.mark.parametrize("make", [alike, unlike])
def test_words_move_the_plain_size_and_not_the_felt_one(make):
    """J does not see the words, so its dynamics are the same with and without them.

    At the maximum of `alike` plain and felt are one, 2.41, as are all its curvatures.
    """
    bandit = make()
    theta = bandit.maximum_D
    plain, felt = best_sizes(bandit, theta)
    spoken = worded(bandit, 8)
    both = np.append(theta, np.zeros(8))
    assert spoken.value(both) == pytest.approx(bandit.value(theta))
    wordy, same = best_sizes(spoken, both)
    assert wordy > 1.1 * plain
    assert same == pytest.approx(felt, rel=1e-9)
    if make is alike:
        assert felt == pytest.approx(plain, rel=1e-6)
