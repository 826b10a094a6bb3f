"""The figure: rings at the best group sizes, the prediction, and Table 2's form."""

import re

import numpy as np
import pytest

from mse_lab.answers.training_verdict import curve_of
from mse_lab.report.training_figure import compose_training, table_2
from simulated_study import SIZES, STUDY, predict, simulate


@pytest.fixture(scope="module")
def figure():
    return compose_training(STUDY, simulate(), predict(4))


def test_rings_are_at_the_best(figure):
    left, table = figure.axes[0], simulate()
    rings = [
        line for line in left.lines if line.get_marker() == "o" and len(line.get_xdata())
    ]
    main = table[table["arm"] == "main"]
    means = main.groupby(["step", "group_size"])["value"].mean()
    for ring, step in zip(rings, STUDY.evaluation.steps, strict=True):
        assert ring.get_xdata()[0] == means[step].idxmax()
        assert ring.get_ydata()[0] == pytest.approx(means[step].max())


def test_every_run_is_a_dot_at_the_last_step(figure):
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    values = curve_of(simulate(), "main", STUDY.steps).values_SG
    np.testing.assert_allclose([line.get_ydata() for line in dots], values)


def test_the_prediction_is_dashed(figure):
    [dashed] = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert np.ravel(dashed.get_xdata())[0] == pytest.approx(5)


def test_j_falls_with_the_predicted_error(figure):
    """J is linear in N MSE here: the curve on the right falls."""
    line = figure.axes[1].lines[-1]
    assert (np.diff(line.get_xdata()) > 0).all()
    assert line.get_ydata()[0] - line.get_ydata()[-1] > 0.2


def assert_drawn(axes, arms, labels):
    """Each arm where its runs ended, by the table."""
    table = simulate()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == labels
    for handle, arm in zip(axes.containers, arms, strict=True):
        last = table[(table["arm"] == arm) & (table["step"] == 10)]
        means = last.groupby("group_size")["value"].mean()
        np.testing.assert_allclose(handle[0].get_ydata(), means)
        assert handle[0].get_xdata() == pytest.approx(means.index, rel=0.09)


def test_step_sizes_and_other_arms_have_a_panel_each(figure):
    """Arms of another budget are in Table 2 instead."""
    etas = [f"eta = {eta}" for eta in (0.001, 0.015, 0.03)]
    assert_drawn(figure.axes[2], ["small-step", "half-step", "main"], etas)
    others = ["main", "vanilla", "better"]
    assert_drawn(figure.axes[3], others, ["main", "Vanilla", "better"])


def test_panels_show_what_was_seen(figure):
    """Not the intervals of few seeds, which may leave what J can be."""
    low, high = figure.axes[0].get_ylim()
    values = simulate()["value"]
    assert low < values.min() < values.max() < high < values.max() + 0.1


def test_table_2_has_a_row_for_each_budget():
    names, sizes, cells, best = table_2(STUDY, simulate())
    assert names == ["N = 64", "N = 128"]
    assert sizes == SIZES
    assert [len(row) for row in cells] == [6, 6]
    assert set(best) <= {1, 2}


def test_one_seed_can_be_drawn():
    """Without the interval that one seed does not have."""
    compose_training(STUDY, simulate(seeds=1), predict(4)).draw_without_rendering()
    _, _, cells, _ = table_2(STUDY, simulate(seeds=1))
    assert all(re.fullmatch(r"0\.\d{3}", cell) for row in cells for cell in row)


def test_runs_that_are_all_alike_can_be_drawn():
    same = simulate().assign(value=0.5)
    compose_training(STUDY, same, predict(4)).draw_without_rendering()


def test_without_other_arms_there_is_no_panel_for_them():
    table = simulate()
    main = table[table["arm"].isin(["main", "budget-64"])]
    figure = compose_training(STUDY, main, predict(4))
    assert [axes.axison for axes in figure.axes] == [True, True, False]
    both = compose_training(
        STUDY, table[table["arm"].isin(["main", "vanilla"])], predict(4)
    )
    assert [axes.axison for axes in both.axes] == [True, True, True, False]
