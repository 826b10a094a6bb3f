"""A result as it is looked at in Python: printed, drawn, compared, pickled."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mse_lab
from mse_lab.errors import InputError


@pytest.fixture(scope="module")
def result(arrays):
    return mse_lab.analyse(arrays, group_sizes=[4, 8, 16], name="mine")


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
def test_sizes_are_whole_numbers_of_any_kind(arrays, sizes):
    found = mse_lab.analyse(arrays, group_sizes=sizes, estimators=["grpo"])
    assert found.group_sizes == [4, 8]
    assert {*found.mse["estimator"]} == {"grpo"}


def test_an_estimator_may_have_parameters(arrays):
    entries = [{"name": "pass-at-k", "k": 2}]
    one = mse_lab.analyse(arrays, group_sizes=[4], estimators=entries)
    assert list(one.mse["estimator"]) == ["pass-at-k(k=2)"]


@pytest.mark.parametrize("sizes", ["48", 4.0, [4.5], None], ids=repr)
def test_what_is_no_whole_number_is_refused(arrays, sizes):
    with pytest.raises(
        InputError, match=r"analyse: group_sizes\S* = .*: should be a valid"
    ):
        mse_lab.analyse(arrays, group_sizes=sizes)


def test_every_column_is_named_in_the_docstrings(result):
    said = " ".join(
        getattr(type(result), name).__doc__ for name in ("mse", "prompts", "claims")
    )
    tables = (result.mse, result.prompts, result.claims())
    for name in (name for table in tables for name in table.columns):
        stem = name.removesuffix("_low").removesuffix("_high")
        known = ("estimator", "group size", "low", "high")
        assert f"`{stem}`" in said or stem.replace("_", " ") in known, name
