"""Kernels: no bias, by enumeration of every pool that can be drawn.

A kernel depends on how many completions of each kind were drawn, so its expectation is a
sum over these counts, of multinomial probability: exact, with no chance in it.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from math import prod

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
from simulated import Design, make_sample

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


def choices(kinds, most, rewards_C):
    """Every choice of what is differentiated, as kinds, with its chance."""
    ways = []
    for reward, limit in zip((1, 0), most, strict=True):
        own = [kind for kind in kinds if rewards_C[kind] == reward]
        ways.append(Counter(combinations(own, min(limit, len(own)))))
    total = prod(one.total() for one in ways)
    for (right, first), (wrong, second) in product(*(one.items() for one in ways)):
        yield first * second / total, right + wrong


def enumerate_pools(rewards_C, total, most=None):
    """Every pool, with its probability."""
    score_CD, every = make_scores(rewards_C), range(len(rewards_C))
    for kinds in combinations_with_replacement(every, total):
        kinds_N, counts = np.array(kinds), [kinds.count(kind) for kind in every]
        chance = stats.multinomial.pmf(counts, total, PROBABILITY_C)
        for share, chosen in choices(kinds, most, rewards_C) if most else [(1.0, kinds)]:
            scored_K = np.concatenate(
                [np.flatnonzero(kinds_N == kind)[: chosen.count(kind)] for kind in every]
            )
            sample = make_sample(rewards_C[kinds_N], score_CD[kinds_N], scored_K)
            yield chance * share, sample


def moments_of(sample):
    """Moments of one, numbers; what is stacked above it changes none."""
    above = replace(sample, gram_KK=2 * sample.gram_KK)
    found = vars(sample_moments(Stack.of([above, sample])))
    known = {name: values for name, values in found.items() if values is not None}
    return OnePoolMoments(**{name: values[1] for name, values in known.items()})


def expected(pools, figures):
    """Expectation of figures over pools, (F,)."""
    return np.sum([chance * np.array(figures(sample)) for chance, sample in pools], axis=0)


NAMES = (
    *("norm2", "reward_norm2", "reward2_norm2", "value", "variance", "gradient2"),
    *("value_norm2", "value_reward_norm2", "value2_norm2", "trace_oracle", "zeta"),
    *("value_variance", "logit_norm2", "reward_logit_norm2"),
)


def figures_of(sample):
    """Numbers, and then the gradient."""
    found = moments_of(sample)
    return [*(getattr(found, name) for name in NAMES), *sample.gradient_D]


def exact_moments(rewards_C):
    """The moments of all completions, and the gradient."""
    design = Design(PROBABILITY_C[None], make_scores(rewards_C)[None], rewards_C[None])
    norms_PC = np.sqrt((design.score_PCD**2).sum(-1))
    moments = replace(
        design.moments(),
        logit_norm2=design.mean(norms_PC),
        reward_logit_norm2=design.mean(rewards_C * norms_PC),
    )
    return moments, design.gradient_PD[0]


def truth_of(rewards_C, total):
    """What `figures_of` pools of so many completions is on average."""
    moments, gradient = exact_moments(rewards_C)
    found = {name: getattr(moments, name).item() for name in NAMES[:-3] + NAMES[-2:]}
    found["value_variance"] = found["variance"] / total
    return [*(found[name] for name in NAMES), *gradient]


@pytest.mark.parametrize(
    ("name", "total", "most"),
    [
        *product(REWARDS, (4, 8, 16), [None]),
        *product(["rewards 0 and 1"], [8], [(2, 2), (2, 3), (4, 2)]),
    ],
    ids=str,
)
def test_no_kernel_is_biased(name, total, most):
    """Over every pool, and every choice of what is differentiated."""
    found = expected(enumerate_pools(REWARDS[name], total, most), figures_of)
    np.testing.assert_allclose(found, truth_of(REWARDS[name], total), atol=1e-12)


@pytest.mark.parametrize("most", [None, (3, 3)], ids=["all", "3 + 3"])
def test_the_least_mean_square_is_nearly_unbiased(most):
    """What learning b* takes off: 15% of the bias is left at 12 completions, or less."""
    rewards_C = REWARDS["rewards 0 and 1"]
    pools = list(enumerate_pools(rewards_C, 12, most))
    truth = exact_moments(rewards_C)[0].trace_best.item()

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
