"""The figure along a training run: the columns, and what is not known left out."""

import math

import pytest

from answers.test_along import along, with_right
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report.along_figure import compose_along
from mse_lab.report.drawing import save_figure


@pytest.fixture(scope="module")
def table():
    return along(with_right(1.0, 0.3)).table


BEST = Estimate(3.0, 2.5, 4.0)


def lines_of(axes):
    """What is drawn, by its label."""
    return {line.get_label(): list(line.get_ydata()) for line in axes.lines}


def test_the_panels_show_the_columns(table):
    panels = compose_along(table, BEST).axes
    for panel, name in enumerate(["value", "best_group_size", "vanilla", "rho"]):
        assert table[name].tolist() in lines_of(panels[panel]).values()
    sizes, groups = lines_of(panels[1]), lines_of(panels[4])
    assert (sizes["the run's, 4"], sizes["for all of it, 3.0"]) == ([4, 4], [3, 3])
    assert groups["mean of $V^G + (1-V)^G$"] == table["equal_rewards_law"].tolist()


def test_what_has_no_bound_or_is_not_known_is_left_out(table, tmp_path):
    gone = table.copy()
    gone[["rho", "rho_line", "noise_scale", "best_group_size_high"]] = math.nan
    gone.loc[1, ["best_group_size", "noise_scale_high"]] = math.inf
    for best in (UNKNOWN, Estimate(3.0, 2.0, math.inf)):
        assert "for all of it, 3.0" not in lines_of(compose_along(gone, best).axes[1])
    save_figure(lambda: compose_along(gone, UNKNOWN), tmp_path / "one.svg")
    assert (tmp_path / "one.svg").stat().st_size > 5000
