"""The mismatch of an engine, exact on laws that are listed."""

import numpy as np
import pytest

from mse_lab.mse.mismatch import measure_mismatch, token_divergences


def test_it_is_exact_where_every_completion_is_listed():
    """All four of two tokens, as an engine of equal odds draws them.

    Means are over the engine's law; KL is its own sum, E rho^2 that of the policy.
    """
    first, second = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.25, 0.75]])
    probabilities_NT = np.stack([first.repeat(2), second.ravel()], axis=1)
    ratios_NT = np.log(probabilities_NT / 0.5)
    found = measure_mismatch(ratios_NT.sum(1), token_divergences(ratios_NT).sum(1), 8)
    law_N = np.exp(ratios_NT.sum(1)) / 4
    assert law_N.sum() == pytest.approx(1)
    assert found.kl_per_token == pytest.approx((0.25 * np.log(0.25 / law_N)).sum() / 2)
    assert found.effective == pytest.approx(1 / (law_N**2 / 0.25).sum())


def test_ratios_beyond_any_meaning_are_finite():
    ratios_N = np.array([-2000.0, 0.0, 2000.0])
    found = measure_mismatch(ratios_N, token_divergences(ratios_N), 3)
    assert np.isfinite(found.kl_per_token)
    assert found.effective == pytest.approx(1 / 3)
