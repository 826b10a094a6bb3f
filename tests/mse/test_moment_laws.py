"""Laws: equal to brute-force enumeration of a small policy, for every group."""

from dataclasses import replace

import numpy as np
import pytest

from enumerated import enumerate_policy
from models import random_policy
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.moment_laws import LAWS, pool_moments
from simulated import make_design

PROMPT = [3, 1, 2]


@pytest.fixture(scope="module", params=["binary", "graded"])
def exact(request):
    policy = random_policy(vocabulary=4, ends=(0,), hidden_size=8, num_attention_heads=2)
    reward = {
        "binary": lambda tokens: tokens[0] == 2 or tokens[-1] == 3,
        "graded": lambda tokens: 0.3 * tokens[0] - 0.1 * tokens[-1],
    }[request.param]
    return enumerate_policy(policy, PROMPT, 4, 2, reward)


def test_mean_score_is_zero(exact):
    mean = exact.probabilities @ exact.scores
    assert abs(mean).max() < 1e-5 * abs(exact.scores).max()


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("name", list(LAWS))
def test_law_is_exact(exact, name, size):
    """To 1e-9, once the mean score is zero as it should be.

    The model computes its norms in float32, which leaves a mean of 1e-7.
    """
    centred = replace(exact, scores=exact.scores - exact.probabilities @ exact.scores)
    law = float(LAWS[name](centred.moments(), size)[0])
    np.testing.assert_allclose(law, centred.mse(ESTIMATORS[name], size), rtol=1e-9)


def test_the_least_mean_of_equal_norms_is_the_unbiased_variance():
    """E[(Z-b)^2 ||W||^2] is 2 E(Z-b)^2 then, and b* = V costs a degree of freedom."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 3).draw(rng, 16, 2, 4)
    eye = np.broadcast_to(2 * np.eye(4), pools.gram_PKGG.shape)
    moments = pool_moments(replace(pools, gram_PKGG=eye))
    found = moments.trace_best + moments.gradient2
    np.testing.assert_allclose(found, 2 * pools.rewards_PN.var(-1, ddof=1), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_grpo_is_the_u_statistic_of_lemma_1(exact, size):
    """(1/G) sum_i w_i W_i = mean over pairs of (W_i - W_j)(Z_i - Z_j) / 2."""
    types, groups, _ = exact.groups(size)
    picked = np.random.default_rng(0).integers(len(types), size=50)
    weights = ESTIMATORS["grpo"].weights(groups)[0]
    for row in picked:
        z, w = exact.rewards[types[row]], exact.scores[types[row]]
        first, second = np.triu_indices(size, 1)
        pairs = (z[first] - z[second])[:, None] * (w[first] - w[second]) / 2
        np.testing.assert_allclose(weights[row] @ w / size, pairs.mean(0), atol=1e-12)


@pytest.mark.parametrize("name", ["vanilla", "grpo", "oracle", "best-constant"])
def test_unbiased(exact, name):
    """Up to E[W] = 0, which the float32 norms of the model miss by 1e-6."""
    found = exact.mean_estimate(ESTIMATORS[name], 4)
    np.testing.assert_allclose(found, exact.gradient, atol=1e-5 * abs(exact.scores).max())


def test_a_biased_estimator_fails_the_unbiasedness_test(exact):
    """Negative control: the mean-centred estimator is short by the factor (G-1)/G."""

    class Centred:
        @staticmethod
        def weights(groups):
            return groups.rewards_PRG - groups.rewards_PRG.mean(-1, keepdims=True)

    found = exact.mean_estimate(Centred, 4)
    tolerance = 1e-5 * abs(exact.scores).max()
    assert not np.allclose(found, exact.gradient, atol=tolerance)
    np.testing.assert_allclose(found, 3 / 4 * exact.gradient, atol=tolerance)
