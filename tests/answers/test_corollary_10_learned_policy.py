"""Corollary 10's premise, on policies that have climbed and on one that has not."""

import numpy as np
import pytest
from scipy import optimize

from claimed_runs import draw, take
from designs import scaled
from makers import MAKERS, make
from mse_lab.answers.corollary_10_learned_policy import judge_learned_policy
from simulated import Design, analysed

SIZES = (4, 8)


def softmax_over(features, theta):
    logits = features @ theta
    chance = np.exp(logits - logits.max(1, keepdims=True))
    return chance / chance.sum(1, keepdims=True)


def log_linear(theta, features, reward):
    """A design of prompts that share theta."""
    chance = softmax_over(features, theta)
    mean = np.einsum("pc,pcd->pd", chance, features)
    return Design(chance, features - mean[:, None], reward)


def judge(design, seed=0):
    pools = design.draw(np.random.default_rng(seed), 512, 4, 16)
    [claim] = judge_learned_policy(analysed(pools, SIZES))
    return claim


@pytest.fixture(scope="module")
def climbed():
    """Prompts, and the maximum of their mean value."""
    rng = np.random.default_rng(4)
    features, reward = rng.standard_normal((40, 4, 2)), np.eye(4)[rng.integers(0, 4, 40)]

    def value(theta):
        return (softmax_over(features, theta) * reward).sum(1).mean()

    found = optimize.minimize(lambda theta: -value(theta), np.zeros(2), tol=1e-12)
    assert abs(found.jac).max() < 1e-6
    steps = 1e-3 * np.vstack([np.eye(2), -np.eye(2)])
    trace = (sum(value(found.x + one) for one in steps) - 4 * value(found.x)) / 1e-6
    return log_linear(found.x, features, reward), trace


def test_at_a_maximum_it_is_the_trace_of_the_hessian(climbed):
    """By the exact moments, and within the interval by the run's."""
    design, trace = climbed
    moments = design.moments()
    exact = (moments.reward_norm2 - moments.value * moments.norm2).mean()
    assert exact == pytest.approx(trace, rel=1e-4)
    assert trace < 0
    claim, level = judge(design), trace / moments.norm2.mean()
    assert claim.estimate.low < level < claim.estimate.high


@pytest.mark.parametrize("name", MAKERS)
def test_the_sign_is_the_exact_one(name):
    """Or nothing is decided, where the interval holds zero."""
    moments, claim = make(name).moments(), judge(make(name))
    exact = (moments.reward_norm2 - moments.value * moments.norm2).sum()
    exact /= moments.norm2.sum()
    assert claim.estimate.low < exact < claim.estimate.high
    if claim.verdict == "premise fails":
        assert ("above zero" in claim.reason) == (exact > 0)
        assert ("below zero" in claim.reason) == (exact < 0)
    else:
        assert claim.verdict == "undecided"
        assert claim.estimate.low < 0 < claim.estimate.high


def test_both_signs_are_found():
    found = [judge(make(name)).estimate for name in MAKERS]
    assert any(one.low > 0 for one in found)
    assert any(one.high < 0 for one in found)


def test_undecided_where_the_assumption_holds_or_prompts_are_few():
    [claim] = judge_learned_policy(draw("fair", sizes=SIZES))
    assert claim.verdict == "undecided"
    assert judge(take(make("many wrong answers"), 2)).verdict == "undecided"


def test_prompts_with_long_scores_weigh_more():
    """One wrong answer: b* > V below V = 1/2 and b* < V above, where scores are longer."""
    design = make("one wrong answer")
    above = design.moments().value > 0.5
    assert 0 < above.sum() < len(above)
    found = {}
    for side in (True, False):
        longer = scaled(design, np.where(above == side, 5.0, 1.0))
        one = longer.moments()
        exact = (one.reward_norm2 - one.value * one.norm2).sum() / one.norm2.sum()
        found[side] = judge(longer).estimate.value
        assert found[side] == pytest.approx(exact, abs=0.02)
        assert abs((one.best_baseline - one.value).mean() - exact) > 0.05
    assert found[True] < 0 < found[False]
