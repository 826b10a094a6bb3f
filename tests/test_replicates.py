"""Squared errors: those of the vectors themselves, which no inner product replaces here."""

import numpy as np
import pytest

from mse_lab.replicates import squared_errors


@pytest.mark.parametrize("size", [1, 2, 5])
def test_errors_are_those_of_vectors(size):
    """||g_hat - rbar||^2 where <r_A, r_B> is ||rbar||^2."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((2, 3, size, 7))
    weights = rng.standard_normal((2, 3, size))
    mean = rng.standard_normal((2, 7))
    estimates = np.einsum("prg,prgd->prd", weights, scores) / size
    expected = ((estimates - mean[:, None]) ** 2).sum(-1)
    found = squared_errors(
        weights,
        scores @ scores.swapaxes(-1, -2),
        np.einsum("prgd,pd->prg", scores, mean),
        (mean**2).sum(-1),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
