"""Figure 4: what its two rows show, on one scale, of odd numbers and of nothing."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from mse_lab.commands.command_line import ROOT
from mse_lab.commands.figure import FIGURE_4_RUNS
from mse_lab.report.drawing import save_figure, show_figure
from mse_lab.report.figure_4 import NOTHING, compose, find_curves, title_of
from mse_lab.results.finished_run import Tables, read_tables

SIZES = [2, 4, 8]
ESTIMATORS = ["vanilla", "grpo", "oracle", "centred"]
QUANTITIES = ["mse", "law", "ratio"]


def make_tables(point=(2, 1, 3), estimators=ESTIMATORS, sizes=SIZES, **columns):
    """Tables with the same point, (value, low, high), or the columns given, everywhere."""
    keys = pd.MultiIndex.from_product(
        [estimators, sizes], names=["estimator", "group_size"]
    )
    mse = keys.to_frame(index=False).assign(probe="some", replicates=8)
    for name in QUANTITIES:
        mse[[name, f"{name}_low", f"{name}_high"]] = point
    mse = mse.assign(**columns)
    prompts = pd.DataFrame({"prompt": ["a"], "category": "", "value": 0.5})
    return Tables("some", mse, prompts)


def texts(figure):
    return [one.get_text() for axes in figure.axes for one in axes.texts]


def drawn(*runs):
    """Draw runs, without a warning of any library; give what is written beside lines."""
    return texts(show_figure(lambda: compose(runs)))


@pytest.mark.parametrize("point", [(1, 2, 3), (3, 1, 2)])
def test_odd_intervals_are_drawn(point):
    """One that misses its point reaches no further than that on its side."""
    assert drawn(make_tables(point)) == []


@pytest.mark.parametrize("point", [(0, 0, 0), (-1, -2, 0), (np.nan,) * 3])
def test_nothing_positive_is_said_in_a_sentence(point):
    """Beside a run with errors, and alone."""
    nothing = make_tables(point)
    assert drawn(nothing, make_tables()) == [NOTHING] * 2
    assert drawn(nothing) == [NOTHING]


def test_the_ratio_of_laws_is_worked_out_by_size():
    """Laws of 6 and 8 over the oracle's 2 and 4 are 3 and 2."""
    run = make_tables(estimators=["grpo", "oracle"], sizes=[4, 8], law=[6, 8, 2, 4])
    assert find_curves(run).xs("grpo")["law_ratio"].tolist() == [3, 2]
    assert find_curves(make_tables(law=0))["law_ratio"].isna().all()


def test_without_the_oracle_there_is_no_row_of_ratios():
    no_ratio = dict.fromkeys(["ratio", "ratio_low", "ratio_high"], np.nan)
    without = make_tables(estimators=["grpo"], **no_ratio)
    assert len(compose([without]).axes) == 1
    figure = compose([without, make_tables()])
    assert len(figure.axes) == 4
    assert texts(figure) == [NOTHING]


def test_points_without_a_law_are_joined():
    none = dict.fromkeys(["law", "law_low", "law_high"], np.nan)
    figure = compose([make_tables(estimators=["centred"], **none)])
    assert [line.get_linestyle() for line in figure.axes[0].lines].count(":") == 1


COMMITTED = {
    "figure4": FIGURE_4_RUNS,
    "smollm2": ("smollm2/base", "smollm2/instruct", "smollm2/icl"),
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_figure_is_that_of_the_committed_tables(name, dark, tmp_path):
    """Pixel by pixel, so that nobody finds a changed file after `make figures`."""
    runs = [read_tables(ROOT / "results" / run) for run in COMMITTED[name]]
    save_figure(lambda: compose(runs), tmp_path / "f.png", dark=dark)
    committed = ROOT / f"figures/{name}{'-dark' * dark}.png"
    drawn, kept = (imread(path) for path in (tmp_path / "f.png", committed))
    np.testing.assert_allclose(drawn, kept, atol=0.01)
    assert (np.median(drawn[..., :3]) < 0.2) == dark


def test_a_run_is_named_for_a_reader():
    names = ["smollm2/icl", "smollm2/words-icl", "tiny/icl", "mine"]
    shown = ["Demonstrations", "Questions, demonstrations", "ICL", "mine"]
    assert [title_of(name) for name in names] == shown
