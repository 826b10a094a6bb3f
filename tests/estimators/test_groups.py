"""Deviations and spreads: NumPy's, and exactly zero where they should be."""

import numpy as np
import pytest

from mse_lab.estimators.groups import deviations, spread


@pytest.mark.parametrize("axes", [-1, 0, (0, 2)])
@pytest.mark.parametrize("ddof", [0, 1])
def test_agrees_with_numpy(axes, ddof):
    values = np.random.default_rng(0).normal(size=(4, 3, 5))
    mean = values.mean(axis=axes, keepdims=True)
    np.testing.assert_allclose(deviations(values, axes), values - mean, atol=1e-14)
    expected = values.std(axis=axes, ddof=ddof, keepdims=True)
    np.testing.assert_allclose(spread(values, axes, ddof), expected, rtol=1e-12)


def test_plain_formulas_leave_a_residue_that_these_do_not():
    """The trap is real on this group, else the next lines would show nothing."""
    equal = np.full((1, 1, 3), 0.1)
    assert (equal - equal.mean(-1, keepdims=True)).any()
    assert equal.std(-1, ddof=1).any()
    assert not deviations(equal).any()
    assert not spread(equal).any()


def test_spread_of_one_value_is_zero():
    assert spread(np.array([3.0])).tolist() == [0.0]
