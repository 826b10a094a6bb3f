"""The public door: arrays to answers, without a model."""

from dataclasses import replace

import pytest

import mse_lab
from mse_lab.errors import InputError

SIZES = [4, 8, 16]
FIRST = [
    "probe",
    "estimator",
    "group_size",
    "replicates",
    "mse",
    "mse_low",
    "mse_high",
    "mse_plain",
    "law",
    "law_low",
    "law_high",
    "relative_mse",
]
CLAIMS = {"statement", "group_size", "value", "low", "high", "verdict"}


def test_everything_comes_from_the_arrays(arrays):
    result = mse_lab.analyse(arrays, group_sizes=SIZES)
    assert list(result.mse.columns[: len(FIRST)]) == FIRST
    assert len(result.mse) == 9
    assert list(result.prompts["prompt"]) == [str(index) for index in range(12)]
    assert {"oracle", "grpo", "vanilla"} == set(result.laws["estimator"])
    assert set(result.claims().columns) > CLAIMS
    advice = result.advise()
    assert advice.low <= advice.best_group_size <= advice.high
    wider = mse_lab.analyse(arrays, group_sizes=SIZES, level=0.99).mse
    assert (wider["mse_low"] < result.mse["mse_low"]).all()
    assert (wider["mse"] == result.mse["mse"]).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"group_sizes": [5]}, "5 does not divide the 16 completions of a block"),
        ({"group_sizes": [32]}, "group_sizes: 32 does not divide the 16"),
        ({"group_sizes": []}, r"analyse: group_sizes = \[\]: "),
        ({"group_sizes": 4}, "analyse: group_sizes = 4: "),
        ({"level": 1.5}, r"analyse: interval\.level = 1\.5: should be less than 1"),
        (
            {"resamples": 1},
            "interval.resamples = 1: should be greater than or equal to 2",
        ),
        (
            {"resamples": None},
            "interval.resamples = None: should be a valid integer",
        ),
        ({"level": "high"}, "analyse: interval.level = 'high': should be a valid number"),
        ({"seed": "x"}, "analyse: seed = 'x': should be a valid integer"),
        (
            {"method": "percentile"},
            "analyse: interval.method = 'percentile': should be 'closed",
        ),
        ({"estimators": ["grop"]}, "grop"),
        ({"estimators": []}, r"analyse: estimators = \[\]: "),
    ],
)
def test_what_cannot_be_used_is_named(arrays, changes, words):
    with pytest.raises(InputError, match=words):
        mse_lab.analyse(arrays, **({"group_sizes": SIZES} | changes))


def test_two_runs_of_one_name_share_nothing_by_chance(arrays):
    """Only what bears the same name is paired."""
    one, other = (
        mse_lab.analyse(arrays, group_sizes=[4], name=name) for name in ("a", "b")
    )
    mine, theirs = (
        next(iter(result.points.values()))[0].statistic() for result in (one, other)
    )
    assert (mine - mine).error == 0
    assert (mine - theirs).spread.variance == pytest.approx(2 * mine.spread.variance)
    same = replace(other, name="a")
    paired = next(iter(same.points.values()))[0].statistic()
    assert (mine - paired).error == 0
