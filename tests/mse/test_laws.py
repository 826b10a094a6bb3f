"""Laws: equal to brute-force enumeration, of policies of four completions."""

from dataclasses import replace

import numpy as np
import pytest

from enumerated import random_enumerated
from every_estimator import EVERY
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.laws import LAWS, WRONG_RIGHT, find_law
from mse_lab.mse.moments import Moments

WITH_LAW = [
    name
    for name, estimator in EVERY.items()
    if name in LAWS or (estimator.reward_only and estimator.group_local)
]
WHATEVER_REWARDS = [name for name in WITH_LAW if name in LAWS or EVERY[name].affine]


POLICIES = {
    "binary": random_enumerated(np.random.default_rng(0)),
    "graded": random_enumerated(np.random.default_rng(0), rewards=(0.9, -0.4, 0.2, 0.1)),
}
KINDS = [("binary", name) for name in WITH_LAW]
KINDS += [("graded", name) for name in WHATEVER_REWARDS]


def hold(law, policy, estimator, size):
    """Hold a law to the enumerated mean and MSE of a policy."""
    found, gradient_PD = law(policy.moments()), policy.gradient_PD
    scale = max(1.0, float(found.second[0]))
    mean_PD = policy.mean_estimate(estimator, size)
    np.testing.assert_allclose(found.slope * gradient_PD, mean_PD, atol=1e-9 * scale)
    mse = found.second - (2 * found.slope - 1) * (gradient_PD**2).sum(-1)
    np.testing.assert_allclose(mse, policy.mse(estimator, size), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_law_is_the_enumerated_one(kind, name, size):
    estimator = EVERY[name]
    if size < (4 if name == "pass-at-k" else estimator.smallest_group):
        pytest.skip("not defined for so small a group")
    law = find_law(estimator, size, WRONG_RIGHT if kind == "binary" else None)
    if size == 1 and name not in WHATEVER_REWARDS:
        assert law is None
        return
    hold(law, POLICIES[kind], estimator, size)


@pytest.mark.parametrize("values", [(-1.0, 0.0), (-1.0, 1.0), (0.1, 1.1)], ids=str)
@pytest.mark.parametrize("name", ["vanilla", "grpo-std", "median", "maxrl"])
def test_law_of_rewards_of_two_values_is_the_enumerated_one(name, values):
    """Whatever the two are; what needs 0 and 1 has no law."""
    (low, high), one = values, POLICIES["binary"]
    estimator, size = ESTIMATORS[name], 4
    law = find_law(estimator, size, values)
    if estimator.binary:
        assert law is None
    else:
        other = replace(one, reward_PC=low + (high - low) * one.reward_PC)
        hold(law, other, estimator, size)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("name", WITH_LAW)
def test_certain_prompts_need_no_limit(name, value):
    """With all rewards equal g = 0, and only a baseline off the value leaves noise."""
    norm2 = np.array([3.0])
    moments = Moments(
        norm2, value * norm2, value * norm2, np.array([value]), 0 * norm2, 0 * norm2
    )
    law = find_law(EVERY[name], 4)(moments)
    assert np.isfinite(law.second).all()
    assert np.isfinite(law.slope).all()
    expected = law.second[0] if name == "pass-at-k" else 0.0
    if coefficients := EVERY[name].affine:
        alpha, part = coefficients
        expected = (value - alpha - part * value) ** 2 * 3 / 4
    np.testing.assert_allclose(law.second[0], expected, atol=1e-12)
