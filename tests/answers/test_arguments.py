"""Arguments: each one's algebra against plain numbers."""

from itertools import combinations

import numpy as np
import pytest

from claimed_runs import draw
from mse_lab.answers.arguments import (
    ARGUMENTS,
    NOT_MEASURED,
    SHIFT,
    best_without_replacement,
    judge_arguments,
)
from simulated import analysed, make_design


def test_the_limit_s_covariance_has_beta_squared():
    """C_{i+1} = (1 - b/i L) C_i (1 - b/i L) + (b/i)^2 Gamma: n C_n at n = 10,000."""
    beta, rates = 3.0, np.array([0.5, 1.0])
    gamma = np.array([[2.0, 0.5], [0.5, 1.0]])
    covariance = np.zeros((2, 2))
    for step in beta / np.arange(20, 10_000):
        kept = 1 - step * rates
        covariance = kept[:, None] * covariance * kept + step**2 * gamma
    without = gamma / (beta * np.add.outer(rates, rates) - 1)
    np.testing.assert_allclose(1e4 * covariance, beta**2 * without, rtol=0.02)


def test_the_gradient_of_k3():
    """Of log pi = theta_y - log sum exp theta, by differences; W = onehot(y) - pi."""
    theta, other, y = np.array([0.3, -0.2, 0.5]), np.array([0.2, 0.5, 0.3]), 1

    def softmax(logits):
        return np.exp(logits) / np.exp(logits).sum()

    def k3(logits):
        ratio = other[y] / softmax(logits)[y]
        return ratio - 1 - np.log(ratio)

    steps = 1e-6 * np.eye(3)
    found = [(k3(theta + step) - k3(theta - step)) / 2e-6 for step in steps]
    score = np.eye(3)[y] - softmax(theta)
    expected = score * (1 - other[y] / softmax(theta)[y])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not np.allclose(found, score * (1 - softmax(theta)[y] / other[y]), rtol=0.1)


def test_the_best_size_without_replacement():
    """Brute force: every set of B of 12 prompts, at budgets of 12 and of 24.

    c2 moves nothing and is left out; only sizes that divide the budget can be had.
    """
    gradients = np.random.default_rng(0).standard_normal((12, 2))
    apart = gradients - gradients.mean(0)
    c1, c3 = (apart**2).sum(-1).mean(), 24.0
    found = []
    for budget in (12, 24):
        mse = {}
        for size in (one for one in range(2, 13) if budget % one == 0):
            batch = budget // size
            sets = np.array(list(combinations(range(12), batch)))
            spread = (apart[sets].mean(1) ** 2).sum(-1).mean()
            assert spread == pytest.approx(c1 * (12 - batch) / (11 * batch))
            mse[size] = spread + c3 / (budget * (size - 1))
        found.append(min(mse, key=mse.__getitem__))
    assert found[0] == found[1]
    sizes = np.linspace(1.5, 20, 20_000)
    law = c1 * 12 / 11 * sizes + c3 / (sizes - 1)
    best = best_without_replacement(1 + np.sqrt(c3 / c1), 12)
    assert best == pytest.approx(sizes[law.argmin()], abs=2e-3)


def test_no_argument_is_taken_for_a_measurement():
    run = draw("quiet", sizes=(4, 8))
    claims = judge_arguments(run)
    assert {one.kind for one in claims} == {"argument"}
    assert [one.statement for one in claims] == [one.name for one in ARGUMENTS]
    assert all(one.p_value is None and np.isnan(one.estimate.value) for one in claims)
    [theorem] = [one for one in claims if one.statement.startswith("Theorem 8")]
    assert theorem.measured == NOT_MEASURED
    assert "run_mse.py theory" in theorem.reason
    best = run.best_group_size.value
    [shift] = [one for one in claims if one.statement == SHIFT.name]
    assert f"G* {best:.3g} with replacement" in shift.measured
    few = make_design(np.random.default_rng(0), 2)
    pools = few.draw(np.random.default_rng(1), 32, 2, 8)
    assert {one.measured for one in judge_arguments(analysed(pools, [4]))} == {NOT_MEASURED}
