"""Groups without a signal, against enumeration."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mse_lab.answers.prompt_means import silent_share


def test_silent_share_by_enumeration():
    rewards = np.array([[0, 1, 1, 0, 1, 1, 1], [2, 0, 1, 1, 2, 2, 2], [0] * 7], float)
    for size in range(2, 8):
        groups = list(itertools.combinations(range(7), size))
        for row, share in zip(rewards, silent_share(rewards, size), strict=True):
            alike = sum(len({row[i] for i in group}) == 1 for group in groups)
            assert share == pytest.approx(alike / len(groups), abs=1e-12)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_silent_share_is_unbiased(p, size):
    """Summed over all pools of 12 binary rewards, exactly p^G + (1-p)^G."""
    rewards = np.tril(np.ones((13, 12)), -1)  # row k has k right completions
    share = silent_share(rewards, size)
    mean = (stats.binom.pmf(np.arange(13), 12, p) * share).sum()
    assert mean == pytest.approx(p**size + (1 - p) ** size, abs=1e-12)
