"""Kernels: no bias, by enumeration of every pool that can be drawn.

A kernel depends on how many completions of each kind were drawn, so its expectation is a
sum over these counts, of multinomial probability: exact, with no chance in it.
"""

from itertools import product
from math import comb, prod

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.moments import OnePoolMoments
from mse_lab.mse.one_pool import (
    Stack,
    choose_scored,
    gradient_noise2,
    gradient_terms,
    sample_moments,
)
from simulated import make_sample

PROBABILITY_C = np.array([0.2, 0.3, 0.1, 0.4])
REWARDS = {
    "rewards 0 and 1": np.array([1.0, 0, 1, 0]),
    "graded rewards": np.array([2.0, -1, 0.5, 0.5]),
}


def make_scores(rewards_C):
    """Scores of mean zero; those that are rewarded are smaller."""
    score_CD = np.random.default_rng(3).standard_normal((4, 3))
    score_CD *= np.where(rewards_C > rewards_C.mean(), 0.5, 1.5)[:, None]
    return score_CD - PROBABILITY_C @ score_CD


def counts_of(total, kinds):
    """All ways of drawing so many in all."""
    if kinds == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(total + 1)
        for rest in counts_of(total - first, kinds - 1)
    ]


def choices(counts, most, rewards_C):
    """Every choice of what is differentiated, as counts of the kinds, with its chance."""
    found = [(1.0, [0] * len(counts))]
    for kind, limit in zip((1, 0), most, strict=True):
        places = [c for c in range(len(counts)) if rewards_C[c] == kind]
        drawn = [counts[c] for c in places]
        chosen = min(limit, sum(drawn))
        ways = [
            taken
            for taken in product(*(range(one + 1) for one in drawn))
            if sum(taken) == chosen
        ]
        found = [
            (
                chance
                * prod(comb(*two) for two in zip(drawn, taken, strict=True))
                / comb(sum(drawn), chosen),
                [
                    taken[places.index(c)] if c in places else one
                    for c, one in enumerate(before)
                ],
            )
            for chance, before in found
            for taken in ways
        ]
    return found


def enumerate_pools(rewards_C, total, most=None):
    """Every pool, with its probability."""
    score_CD = make_scores(rewards_C)
    for counts in counts_of(total, len(rewards_C)):
        kinds_N = np.repeat(np.arange(len(counts)), counts)
        chance = stats.multinomial.pmf(counts, total, PROBABILITY_C)
        ways = choices(counts, most, rewards_C) if most else [(1.0, list(counts))]
        for share, chosen in ways:
            scored_K = np.concatenate(
                [np.flatnonzero(kinds_N == c)[:count] for c, count in enumerate(chosen)]
            )
            sample = make_sample(rewards_C[kinds_N], score_CD[kinds_N], scored_K)
            yield chance * share, sample


def moments_of(sample):
    """Moments of one, numbers."""
    found = vars(sample_moments(Stack.of([sample])))
    known = {name: values for name, values in found.items() if values is not None}
    return OnePoolMoments(**{name: values[0] for name, values in known.items()})


def expected(pools, figures):
    """Expectation of figures over pools, (F,)."""
    return np.sum([chance * np.array(figures(sample)) for chance, sample in pools], axis=0)


def figures_of(sample):
    """Numbers, and then the gradient."""
    found = moments_of(sample)
    return [
        found.norm2,
        found.reward_norm2,
        found.reward2_norm2,
        found.value,
        found.variance,
        found.gradient2,
        found.value_reward_norm2,
        found.value2_norm2,
        found.trace_oracle,
        found.zeta,
        found.value_variance,
        found.value_norm2,
        found.logit_norm2,
        found.reward_logit_norm2,
        *sample.gradient_D,
    ]


def truth_of(rewards_C, total):
    score_CD = make_scores(rewards_C)
    norms2, gradient = (score_CD**2).sum(-1), (PROBABILITY_C * rewards_C) @ score_CD
    value = PROBABILITY_C @ rewards_C
    norm2, variance = PROBABILITY_C @ norms2, PROBABILITY_C @ (rewards_C - value) ** 2
    weighted = PROBABILITY_C @ (rewards_C * norms2)
    return [
        norm2,
        weighted,
        PROBABILITY_C @ (rewards_C**2 * norms2),
        value,
        variance,
        gradient @ gradient,
        value * weighted,
        value**2 * norm2,
        PROBABILITY_C @ ((rewards_C - value) ** 2 * norms2) - gradient @ gradient,
        variance * norm2 + gradient @ gradient,
        variance / total,
        value * norm2,
        PROBABILITY_C @ np.sqrt(norms2),
        PROBABILITY_C @ (rewards_C * np.sqrt(norms2)),
        *gradient,
    ]


@pytest.mark.parametrize("total", [4, 8, 16])
@pytest.mark.parametrize("name", REWARDS)
def test_no_kernel_is_biased(name, total):
    found = expected(enumerate_pools(REWARDS[name], total), figures_of)
    np.testing.assert_allclose(found, truth_of(REWARDS[name], total), atol=1e-12)


@pytest.mark.parametrize("most", [(2, 2), (2, 3), (4, 2)], ids=str)
def test_none_is_where_some_are_not_differentiated(most):
    """Over every choice of them."""
    rewards_C = REWARDS["rewards 0 and 1"]
    found = expected(enumerate_pools(rewards_C, 8, most), figures_of)
    np.testing.assert_allclose(found, truth_of(rewards_C, 8), atol=1e-12)


@pytest.mark.parametrize("most", [None, (3, 3)], ids=["all", "3 + 3"])
def test_the_least_mean_square_is_nearly_unbiased(most):
    """What learning b* takes off: 15% of the bias is left at 12 completions, or less."""
    rewards_C = REWARDS["rewards 0 and 1"]
    pools = list(enumerate_pools(rewards_C, 12, most))
    norms2 = (make_scores(rewards_C) ** 2).sum(-1)
    best = PROBABILITY_C @ (rewards_C * norms2) / (PROBABILITY_C @ norms2)
    mean_square = PROBABILITY_C @ ((rewards_C - best) ** 2 * norms2)
    truth = mean_square - truth_of(rewards_C, 12)[5]

    def figures(sample):
        found = moments_of(sample)
        return [found.trace_best - found.learning - truth, found.trace_best - truth]

    without, bias = expected(pools, figures)
    assert without < -0.02 * truth
    assert abs(bias) < 0.15 * abs(without)


@pytest.mark.parametrize("most", [None, (4, 4)], ids=["all", "4 + 4"])
def test_the_noise_of_a_squared_gradient_where_there_is_none(most):
    """Scores that know nothing of the reward: 2,000 pools; 15% are some four errors."""
    rng, drawn = np.random.default_rng(0), []
    for _ in range(2000):
        rewards_N = rng.integers(0, 2, 16).astype(float)
        scored_K = choose_scored(rewards_N, most, rng)
        drawn.append(make_sample(rewards_N, rng.standard_normal((16, 5)), scored_K))
    terms = [gradient_terms(Stack.of([one])) for one in drawn]
    found, noise2 = [one.sum() for one in terms], [gradient_noise2(one) for one in terms]
    assert np.mean(noise2) == pytest.approx(np.var(found), rel=0.15)


def test_three_completions_are_too_few():
    sample = make_sample(np.array([1.0, 0, 0]), np.eye(3), np.arange(3))
    with pytest.raises(ValueError, match="3 completions: give 4"):
        moments_of(sample)


def test_at_most_so_many_of_each_kind_are_chosen():
    """All where there are fewer; graded rewards, and no limit, take all."""
    rng = np.random.default_rng(0)
    rewards = np.array([1.0, 0, 0, 0, 0, 0, 1, 1])
    drawn = [choose_scored(rewards, (4, 2), rng) for _ in range(40)]
    for chosen in drawn:
        assert rewards[chosen].tolist().count(1) == 3
        assert len(chosen) == 5
        assert (np.diff(chosen) > 0).all()
    assert set(np.concatenate(drawn)) == set(range(8))
    assert choose_scored(rewards, None, rng).tolist() == list(range(8))
    assert choose_scored(rewards / 2, (2, 2), rng).tolist() == list(range(8))
    with pytest.raises(ValueError, match="two or more"):
        choose_scored(rewards, (1, 2), rng)
