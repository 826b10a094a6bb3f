"""Theorem 12: powers are found where they are known, and the clip binds late."""

import numpy as np
import pytest

from mse_lab.studies.theory import theorem_12
from mse_lab.studies.theory.rollout import Rollout
from mse_lab.studies.theory.sequences import counted
from mse_lab.studies.theory.theorem_12 import clip_path, fit_power, judge_theorem_12

LEVELS = np.array([1.0, 2.0, 4.0, 8.0])


@pytest.fixture(scope="module")
def policy():
    return counted(3, 3, 6)


def test_a_power_without_noise():
    found = fit_power(LEVELS, 3 * LEVELS[:, None] ** 1.5 * np.ones(5))
    np.testing.assert_allclose(found, 1.5, rtol=1e-12)


def test_the_interval_of_a_power_covers_it():
    """99%, of runs that share half of their noise; false alarm 1 in 4,000."""
    draws, covered = np.random.default_rng(0), 0
    for _ in range(400):
        common, own = draws.gamma(0.5, size=100), draws.gamma(0.5, size=(4, 100))
        found = fit_power(LEVELS, LEVELS[:, None] ** 2 * (common + own))
        covered += found.low <= 2 <= found.high
    assert 388 <= covered <= 400
    assert found.high - found.low < 0.6


def test_the_clip_adds_nothing_until_it_binds(policy):
    path = clip_path(Rollout(policy))
    first = int((path["clipped"] > 0).idxmax())
    before = path[:first]
    assert first > 3
    with_clip, without = (before[name] for name in ("bias2", "bias2_without"))
    np.testing.assert_allclose(with_clip, without, rtol=1e-9, atol=1e-20)
    assert path["bias2"][first] > 2 * path["bias2_without"][first]
    assert (np.diff(before["value"]) > 0).all()


def test_rates_hold_and_the_clip_s_bias_is_told(policy, few):
    findings, tables = judge_theorem_12(policy, few)
    powers = [one.estimate.value for one in findings[:4]]
    assert powers[:2] == pytest.approx([2, 2], abs=0.02)
    assert powers[2] == pytest.approx(2, abs=0.05)
    assert powers[3] < 1.5
    assert [one.verdict for one in findings] == ["holds"] * 5 + ["fails"]
    assert len(tables["theorem_12"]) == 4 * theorem_12.MINIBATCHES
    assert set(tables) == {"theorem_12", "clip"}
