"""The ranking: all built-in estimators on the run's own groups."""

import numpy as np
import pytest

from mse_lab.answers.ranking import NO_LAW, nearest_size, rank_estimators
from mse_lab.estimators import ESTIMATORS
from simulated import analysed, make_design

SIZES = [2, 4, 8, 16, 32]


def simulate(prompts=12, sizes=SIZES):
    """Pools of simulated prompts, two blocks each."""
    rng = np.random.default_rng(1)
    return make_design(rng, prompts).draw(rng, 256, 2, max(sizes))


@pytest.fixture(scope="module")
def ranking():
    return rank_estimators(analysed(simulate(), SIZES, resamples=200), 16)


@pytest.fixture(scope="module")
def ranked(ranking):
    return ranking[0]


def test_every_built_in_estimator_is_accounted_for(ranking):
    ranked, reasons = ranking
    named = [row.estimator.name for row in ranked]
    left_out = dict(one.split(": ", 1) for one in reasons)
    assert sorted([*named, *left_out]) == sorted(ESTIMATORS)
    assert set(left_out.values()) == {NO_LAW}


def test_ranked_by_scale_free_mse(ranked):
    values = [float(row.curve.point.scale_free_mse) for row in ranked]
    assert values == sorted(values)
    for row in ranked:
        assert row.ratio.low <= row.ratio.value <= row.ratio.high or row.ratio.low > 0
    [oracle] = [row for row in ranked if row.estimator.name == "oracle"]
    assert oracle.ratio == (1, 1, 1)


def test_intervals_of_ratios_are_symmetric_in_the_logarithm(ranked):
    for row in ranked:
        both = row.ratio.low * row.ratio.high
        assert both == pytest.approx(row.ratio.value**2, rel=1e-9)


def test_a_factor_changes_no_rank(ranked):
    """Centred is GRPO-type times (G-1)/G: one scale-free MSE, up to noise."""
    rows = {row.estimator.name: row for row in ranked}
    raw = [float(rows[name].curve.point.mse) for name in ("centred", "grpo")]
    assert raw[0] < raw[1]
    assert rows["centred"].ratio.value == pytest.approx(rows["grpo"].ratio.value, rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "wanted", "expected"),
    [
        ([4, 8, 16, 32, 64], 16, 16),
        ([4, 8, 16, 32, 64], 5, 4),
        ([4, 8, 16, 32, 64], 256, 32),
        ([4, 16], 16, 4),
        ([16], 4, 16),
        ([1, 2], 16, 2),
    ],
)
def test_nearest_size(sizes, wanted, expected):
    """Below the largest, whose blocks hold one group of a prompt each."""
    run = analysed(simulate(2, sizes), sizes, estimators=["vanilla", "oracle"])
    assert nearest_size(run, wanted) == expected


def test_what_does_not_apply_is_left_out_with_a_reason():
    """One prompt has no batch; own variants of the probe are ranked beside the built-in."""
    entries = ["grpo", {"name": "grpo-std", "eps": 1.0}]
    run = analysed(simulate(1), SIZES, estimators=entries, resamples=50)
    ranked, reasons = rank_estimators(run, 16)
    named = {row.estimator.name for row in ranked}
    assert "grpo-std(eps=1.0)" in named
    left_out = dict(one.split(": ", 1) for one in reasons)
    assert not named & set(left_out)
    assert named | set(left_out) == {*ESTIMATORS, "grpo-std(eps=1.0)"}
    assert set(left_out.values()) == {"needs 2 prompts or more", NO_LAW}
