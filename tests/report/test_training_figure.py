"""The figure: rings at the best group sizes, the prediction, and Table 2's form."""

import numpy as np
import pytest

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


def test_the_prediction_is_dashed(figure):
    [dashed] = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert np.ravel(dashed.get_xdata())[0] == pytest.approx(5)


def test_j_falls_with_the_predicted_error(figure):
    """J is linear in N MSE here: the curve on the right falls."""
    line = figure.axes[1].lines[-1]
    assert (np.diff(line.get_xdata()) > 0).all()
    assert line.get_ydata()[0] - line.get_ydata()[-1] > 0.2


def test_table_2_has_a_row_for_each_budget():
    names, sizes, cells, best = table_2(STUDY, simulate())
    assert names == ["N = 64", "N = 128"]
    assert sizes == SIZES
    assert [len(row) for row in cells] == [6, 6]
    assert set(best) <= {1, 2}


def test_one_seed_can_be_drawn():
    compose_training(STUDY, simulate(seeds=1), predict(4)).draw_without_rendering()
