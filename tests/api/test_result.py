"""Arrays to a result, without a model; and how it is looked at: printed, drawn, pickled."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mse_lab
from mse_lab.errors import InputError
from simulated import make_design

SIZES = [4, 8, 16]
FIRST = ["probe", "estimator", "group_size", "replicates", "mse", "mse_low", "mse_high"]
FIRST += ["mse_plain", "law", "law_low", "law_high", "relative_mse"]
CLAIMS = {"statement", "group_size", "value", "low", "high", "verdict"}


@pytest.fixture(scope="module")
def arrays():
    """Pools of anybody."""
    rng = np.random.default_rng(0)
    found = vars(make_design(rng, prompts=12).draw(rng, 256, 4, 16))
    return {name: array for name, array in found.items() if not name.startswith("kind_")}


@pytest.fixture(scope="module")
def result(arrays):
    return mse_lab.analyse(arrays, group_sizes=SIZES, name="mine")


def test_everything_comes_from_the_arrays(arrays):
    result = mse_lab.analyse(arrays, group_sizes=SIZES)
    assert list(result.mse.columns[: len(FIRST)]) == FIRST
    assert len(result.mse) == 9
    assert list(result.prompts["prompt"]) == [str(index) for index in range(12)]
    assert {"oracle", "grpo", "vanilla"} == set(result.laws["estimator"])
    assert set(result.claims().columns) > CLAIMS
    advice = result.advise()
    for count in ("64", 12, 0):
        with pytest.raises(InputError, match="a multiple of the group size 8, or None"):
            result.advise(count)
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
        *(
            ({"group_sizes": one}, r"analyse: group_sizes\S* = .*: should be a valid")
            for one in (4, "48", 4.0, [4.5], None)
        ),
        ({"level": 1.5}, r"analyse: interval\.level = 1\.5: should be less than 1"),
        ({"resamples": 1}, "interval.resamples = 1: should be greater than or equal to 2"),
        ({"resamples": None}, "interval.resamples = None: should be a valid integer"),
        ({"level": "high"}, "analyse: interval.level = 'high': should be a valid number"),
        ({"seed": "x"}, "analyse: seed = 'x': should be a valid integer"),
        ({"method": "percentile"}, "analyse: interval.method = 'percentile': should be 'c"),
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


def test_the_door_is_seen_before_it_is_used():
    assert {"Advice", "Result", "analyse", "measure"} <= {*dir(mse_lab)}
    with pytest.raises(AttributeError, match="no attribute 'analyze'"):
        mse_lab.analyze  # noqa: B018


def test_it_is_shown_in_a_few_lines(result):
    for one in (result, result.advice):
        assert "mine" in repr(one)
        assert len(repr(one).splitlines()) <= 5
        assert max(map(len, repr(one).splitlines())) <= 92
    assert "<table" in result._repr_html_()
    assert "num_generations = " in repr(result.advice)


def test_printed_the_advice_is_the_screen_of_the_command(result):
    from mse_lab.report.advice_report import advice_text

    assert str(result.advice) == advice_text(result.advice).rstrip()
    assert "||g||^2" in result.advice._repr_html_()


def test_an_analysed_result_is_pickled_and_compared(result):
    tables, advice = dict(result.tables), result.advice
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert again != result
        for name, table in tables.items():
            pd.testing.assert_frame_equal(again.tables[name], table)
        assert again.advice.as_dict() == advice.as_dict()
    assert result == result
    assert result != replace(result, name="other")
    assert pickle.loads(pickle.dumps(advice)).as_dict() == advice.as_dict()


@pytest.mark.parametrize("kind", ["figure4", "advice", "phase"])
def test_figures_are_drawn_by_name(result, kind, tmp_path):
    result.plot(kind).savefig(tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 10_000


def test_a_figure_that_there_is_not_is_refused(result):
    with pytest.raises(InputError, match=r"plot\('phases'\): .* did you mean phase"):
        result.plot("phases")


@pytest.mark.parametrize(
    "sizes", [np.array([4, 8]), range(4, 9, 4)], ids=["array", "range"]
)
def test_sizes_are_whole_numbers_of_any_kind_and_estimators_have_parameters(arrays, sizes):
    entries = [{"name": "pass-at-k", "k": 2}]
    found = mse_lab.analyse(arrays, group_sizes=sizes, estimators=entries)
    assert found.group_sizes == [4, 8]
    assert {*found.mse["estimator"]} == {"pass-at-k(k=2)"}


def test_every_column_is_named_in_the_docstrings(result):
    said = " ".join(
        getattr(type(result), name).__doc__ for name in ("mse", "prompts", "claims")
    )
    tables = (result.mse, result.prompts, result.claims())
    for name in (name for table in tables for name in table.columns):
        stem = name.removesuffix("_low").removesuffix("_high")
        known = ("estimator", "group size", "low", "high")
        assert f"`{stem}`" in said or stem.replace("_", " ") in known, name
