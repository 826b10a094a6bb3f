"""Completions of several tokens: the law of a tree, and its gradient by differences."""

import numpy as np
import pytest

from mse_lab.studies.theory.proposition_13 import slope_of
from mse_lab.studies.theory.sequences import counted

THETA = np.array([0.4, -0.3, 0.8, 0.1])[:, None]


@pytest.fixture(scope="module")
def policy():
    return counted(3, 2, 4)


def test_completions_are_all_there_and_have_the_law_of_a_tree(policy):
    written, bandit = policy.at(THETA), policy.tokens
    first, *seconds = bandit.at(THETA[:, 0]).probabilities_PK
    law = [first[a] * seconds[a][b] for a in range(3) for b in range(3)]
    np.testing.assert_allclose(written.probabilities_NR[:, 0], law, rtol=1e-12)
    assert written.probabilities_NR.sum() == pytest.approx(1, rel=1e-12)
    right = [(a + b) % 3 == 1 for a in range(3) for b in range(3)]
    np.testing.assert_array_equal(policy.rewards_N, right)


def test_the_gradient_is_that_of_the_value(policy):
    found = slope_of(lambda theta: policy.at(theta).value_R, THETA[:, 0])
    np.testing.assert_allclose(policy.at(THETA).gradient_DR[:, 0], found, rtol=1e-8)


def test_runs_do_not_touch_one_another(policy):
    both = policy.at(np.hstack([THETA, 0 * THETA]))
    for run, theta in enumerate([THETA, 0 * THETA]):
        alone = policy.at(theta)
        np.testing.assert_allclose(both.gradient_DR[:, [run]], alone.gradient_DR)
        np.testing.assert_allclose(both.sd_R[run], alone.sd_R[0])


def test_at_zero_a_third_is_right(policy):
    written = policy.at(policy.start_DR)
    np.testing.assert_allclose(written.value_R, 1 / 3)
    np.testing.assert_allclose(written.sd_R, np.sqrt(2) / 3)
