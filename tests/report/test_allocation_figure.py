"""The allocation's figure: what is drawn where."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers.allocation import allocate
from mse_lab.mse.allocation import FILTERED, is_outside
from mse_lab.report.allocation_figure import compose_allocation
from simulated import analysed
from written_runs import simulate


@pytest.fixture(scope="module")
def found():
    return allocate(analysed(simulate(prompts=12, values=(0.1, 0.9)), [4]), 101)


def lines_of(found):
    [axes] = compose_allocation(found).axes
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_dots_are_the_best_sizes(found):
    dots = lines_of(found)["Best"]
    np.testing.assert_array_equal(dots[:, 0], found.values)
    np.testing.assert_array_equal(dots[:, 1], found.sizes["best"])


def test_curves_are_the_rules(found):
    lines, values = lines_of(found), np.array(found.values)
    np.testing.assert_allclose(lines["The same for all"][:, 1], 101 / 12)
    order = np.argsort(values)
    by_variance = np.stack([values, found.sizes["reward variance"]], 1)[order]
    np.testing.assert_array_equal(lines["By p(1-p)"], by_variance)
    outside, sizes = is_outside(values), found.sizes["accuracy filter"]
    grid, drawn = lines["Accuracy filter"].T
    np.testing.assert_allclose(drawn[is_outside(grid)], 2)
    np.testing.assert_allclose(drawn[~is_outside(grid)], sizes[~outside].mean())
    assert 0 < is_outside(grid).sum() < len(grid)


def test_rewards_beyond_the_unit_interval_are_drawn(found):
    sizes = {name: one for name, one in found.sizes.items() if name != FILTERED}
    moved = replace(found, values=tuple(3 + value for value in found.values), sizes=sizes)
    [axes] = compose_allocation(moved).axes
    assert axes.get_xlim()[1] > 3
    assert len(axes.lines) == 3
