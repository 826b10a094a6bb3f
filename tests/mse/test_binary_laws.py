"""The four-number law: bias and MSE equal to enumeration, for all that have one."""

import numpy as np
import pytest

from enumerated import random_enumerated
from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.mse.binary_laws import find_law, is_binary
from mse_lab.mse.moment_laws import LAWS, Moments
from simulated import make_design

WITH_LAW = [
    name
    for name, estimator in ESTIMATORS.items()
    if name in LAWS or (estimator.reward_only and estimator.group_local)
]


@pytest.fixture(scope="module")
def exact():
    return random_enumerated(np.random.default_rng(0))


def applicable(name, size):
    return ESTIMATORS[name].smallest_group <= size and (name != "pass-at-k" or size >= 4)


def test_the_list_is_not_empty():
    assert {"centred", "grpo-std", "maxrl", "median", "pass-at-k"} <= set(WITH_LAW)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("name", WITH_LAW)
def test_law_is_the_enumerated_one(exact, name, size):
    if not applicable(name, size):
        pytest.skip("not defined for so small a group")
    estimator = ESTIMATORS[name]
    law = find_law(estimator, size, binary=True)(exact.moments())
    mean = exact.mean_estimate(estimator, size)
    norm2 = exact.gradient @ exact.gradient
    scale = max(1.0, float(law.second[0]))
    np.testing.assert_allclose(law.slope[0] * exact.gradient, mean, atol=1e-9 * scale)
    mse = law.second[0] - (2 * law.slope[0] - 1) * norm2
    np.testing.assert_allclose(mse, exact.mse(estimator, size), rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("name", WITH_LAW)
def test_certain_prompts_need_no_limit(name, value):
    """With all rewards equal g = 0, and only a baseline off the value leaves noise."""
    norm2 = np.array([3.0])
    moments = Moments(
        norm2, value * norm2, value * norm2, np.array([value]), 0 * norm2, 0 * norm2
    )
    law = find_law(ESTIMATORS[name], 4, binary=True)(moments)
    assert np.isfinite(law.second).all()
    assert np.isfinite(law.slope).all()
    expected = {"vanilla": value * 3 / 4, "pass-at-k": law.second[0]}.get(name, 0.0)
    np.testing.assert_allclose(law.second[0], expected, atol=1e-12)


def test_many_values_give_what_each_gives_alone():
    """The binomial is evaluated once for each value that occurs, whatever their order."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, size=(50, 4)) / 8
    ones = np.ones_like(values)
    arrays = (ones, 0.3 * values, 0.3 * values, values, values * (1 - values), 0.01 * ones)
    for entry in ("grpo-std", "maxrl", {"name": "pass-at-k", "k": 4}):
        law = find_law(find_estimator(entry), 64, binary=True)
        together = law(Moments(*arrays))
        for place in np.ndindex(values.shape):
            alone = law(Moments(*(array[place][None] for array in arrays)))
            np.testing.assert_allclose(together.second[place], alone.second[0], rtol=1e-9)
            np.testing.assert_allclose(together.slope[place], alone.slope[0], rtol=1e-9)


def test_no_law_where_there_is_none():
    assert find_law(ESTIMATORS["opo"], 4, binary=True) is None
    assert find_law(ESTIMATORS["global-mean"], 4, binary=True) is None
    assert find_law(ESTIMATORS["grpo-std"], 4, binary=False) is None
    assert find_law(ESTIMATORS["centred"], 4, binary=False) is not None
    lengths = find_estimator({"name": "grpo-std", "length": "sequence"})
    assert find_law(lengths, 4, binary=True) is None


def test_binary():
    assert is_binary(np.array([0.0, 1.0]))
    assert not is_binary(np.array([0.0, 0.5]))


def test_grpo_std_tends_to_the_arcsine_objective():
    """Proposition 13: at large G the slope is d/dV of 2 arcsin sqrt(V) = 1/sqrt(V(1-V))."""
    design = make_design(np.random.default_rng(0))
    moments = design.moments()
    law = find_law(ESTIMATORS["grpo-std"], 1024, binary=True)(moments)
    expected = 1 / np.sqrt(moments.value * (1 - moments.value))
    inner = (moments.value > 0.05) & (moments.value < 0.95)
    np.testing.assert_allclose(law.slope[inner], expected[inner], rtol=0.01)
