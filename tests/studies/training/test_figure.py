"""The figure: both sets of prompts, what was known before, and the set ringed."""

import numpy as np
import pytest

from mse_lab.studies.training.best_sizes import regrets
from mse_lab.studies.training.figure import compose_training
from mse_lab.studies.training.verdict import curve_of
from simulated_study import SIZES, STUDY, predict, simulate

START = {"training": 0.5, "held-out": 0.45}


def compose(table, start=START):
    return compose_training(STUDY, table, predict(4)[10], start)


@pytest.fixture(scope="module")
def figure():
    return compose(simulate())


def lines_of(axes, **look):
    return [
        line
        for line in axes.lines
        if all(getattr(line, f"get_{key}")() == value for key, value in look.items())
    ]


def test_a_row_for_each_set_of_prompts(figure):
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == [
        "Mean reward J, training prompts", "", "Mean reward J, held-out prompts", ""
    ]  # fmt: skip
    titles = {axes.get_title() for axes in figure.axes}
    assert titles == {"Along training, eta = 0.03", "Step sizes, step 10"}


@pytest.mark.parametrize(("panel", "prompts"), [(0, "training"), (2, "held-out")])
def test_the_set_is_ringed(figure, panel, prompts):
    """At the last step, which is the last ring."""
    ring = lines_of(figure.axes[panel], marker="o", markersize=8)[-1]
    curve = curve_of(simulate(), "main", 10, prompts)
    chosen = [one.in_set for one in regrets(curve, 0.95)]
    np.testing.assert_allclose(ring.get_xdata(), curve.sizes[chosen])
    np.testing.assert_allclose(ring.get_ydata(), curve.means[chosen])
    assert 0 < sum(chosen) < 6


def test_every_run_is_a_dot_at_the_last_step(figure):
    dots = lines_of(figure.axes[0], marker=".")
    values = curve_of(simulate(), "main", STUDY.steps).values_SG
    np.testing.assert_allclose([line.get_ydata() for line in dots], values)


def test_what_was_known_before_is_drawn_everywhere(figure):
    for axes, start in zip(figure.axes, (0.5, 0.5, 0.45, 0.45), strict=True):
        [dashed] = lines_of(axes, linestyle="--")
        assert np.ravel(dashed.get_xdata())[0] == pytest.approx(5)
        [dotted] = lines_of(axes, linestyle=":")
        assert np.ravel(dotted.get_ydata())[0] == start


@pytest.mark.parametrize(("panel", "prompts"), [(1, "value"), (3, "held_out")])
def test_every_step_size_is_drawn_where_its_runs_ended(figure, panel, prompts):
    table, axes = simulate(), figure.axes[panel]
    arms = {0.001: "small-step", 0.015: "half-step", 0.03: "main"}
    told = [text.get_text() for text in axes.get_legend().get_texts()]
    assert told == [f"eta = {eta}" for eta in arms]
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    for eta, arm in arms.items():
        last = table[(table["arm"] == arm) & (table["step"] == 10)]
        means = last.groupby("group_size")[prompts].mean()
        np.testing.assert_allclose(drawn[f"eta = {eta}"], means)


def test_a_label_has_one_colour_in_both_rows(figure):
    """Also where J of held-out prompts is known of the last step alone."""
    above, below = (
        {line.get_label(): line.get_color() for line in axes.lines}
        for axes in (figure.axes[0], figure.axes[2])
    )
    assert "step 5" in above
    assert "step 5" not in below
    assert above["step 10"] == below["step 10"]


@pytest.mark.parametrize("seeds", [1, 3])
def test_few_seeds_are_drawn_without_intervals(seeds):
    """Nor rings, which would need them."""
    figure = compose(simulate(seeds=seeds))
    figure.draw_without_rendering()
    [legend] = figure.legends
    assert legend.get_title().get_text() == "x, N = 128; means over seeds"
    assert "not significantly worse" not in [one.get_text() for one in legend.get_texts()]
    assert not lines_of(figure.axes[0], markersize=8)


def test_runs_that_are_all_alike_can_be_drawn():
    compose(simulate().assign(value=0.5)).draw_without_rendering()


def test_without_other_step_sizes_or_held_out_prompts_there_is_no_panel_for_them():
    table = simulate().assign(held_out=float("nan"))
    assert len(compose(table, {}).axes) == 2
    main = table[table["arm"] == "main"]
    drawn = [axes for axes in compose(main, {}).axes if axes.axison and axes.lines]
    assert drawn[0].get_title() == "Along training, eta = 0.03"
    np.testing.assert_allclose(drawn[0].get_xticks(), SIZES)
