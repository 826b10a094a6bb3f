"""Zero-variance groups, against enumeration, and the interval of their mean share."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.cluster_means import cluster_share
from mse_lab.mse.zero_variance import zero_variance_shares


def test_shares_by_enumeration():
    rewards = np.array([[0, 1, 1, 0, 1, 1, 1], [2, 0, 1, 1, 2, 2, 2], [0] * 7], float)
    for size in range(2, 8):
        groups = list(itertools.combinations(range(7), size))
        shares = zero_variance_shares(rewards, size)
        for row, share in zip(rewards, shares, strict=True):
            alike = sum(len({row[i] for i in group}) == 1 for group in groups)
            assert share == pytest.approx(alike / len(groups), abs=1e-12)


@pytest.mark.parametrize("size", [4, 64])
def test_the_interval_covers_where_few_prompts_carry_the_share(size):
    """V in 0.1 to 0.9, 20 prompts of 128: at most 24 of 300 missed, false alarm 1e-2.

    Student's interval covers in about 60% of the runs at G = 64 (negative control).
    """
    rng, inside, student = np.random.default_rng(1), 0, 0
    grid = np.linspace(0.1, 0.9, 100_001)
    truth = (grid**size + (1 - grid) ** size).mean()
    for _ in range(300):
        value_P1 = rng.uniform(0.1, 0.9, (20, 1))
        shares = zero_variance_shares((rng.random((20, 128)) < value_P1) * 1.0, size)
        _, low, high = cluster_share(shares, np.arange(20), 0.95, rng, draws=500)
        inside += low <= truth <= high
        reach = stats.t.ppf(0.975, 19) * shares.std(ddof=1) / 20**0.5
        student += abs(shares.mean() - truth) <= reach
    assert inside >= 276
    if size == 64:
        assert student < 240
