"""The figure of a log: the panels that it has numbers for, and what they show."""

import numpy as np
import pytest

from log_makers import draw_groups, groups_of, summarise
from mse_lab.errors import InputError
from mse_lab.report.drawing import save_figure
from mse_lab.report.rollouts_figure import MOST_STEPS, compose_rollouts


def labels(figure):
    return [axes.get_xlabel() for axes in figure.axes if axes.get_visible()]


def test_the_panels_are_those_that_a_log_has(tmp_path):
    assert labels(compose_rollouts(summarise(tmp_path, groups_of([0], [1])))) == [
        "Value V of a prompt"
    ]
    lines = [
        {"prompt": f"p{n // 4}", "reward": n % 2, "step": n // 8, "text": "x" * (1 + n % 7)}
        for n in range(64)
    ]
    assert labels(compose_rollouts(summarise(tmp_path, lines))) == [
        "Value V of a prompt", "Group size G", "Length of a completion, characters",
        "Training step",
    ]  # fmt: skip


def test_the_curve_is_the_forecast_and_the_size_in_use_is_marked(tmp_path):
    summary = summarise(tmp_path, draw_groups([0.1, 0.5, 0.9] * 10, 8))
    axes = compose_rollouts(summary).axes[1]
    points = axes.lines[0].get_xydata()
    known = [one for one in summary.forecasts if not one.model]
    expected = [(one.group_size, one.zero_variance.value) for one in known]
    np.testing.assert_allclose(points, expected)
    [mark] = [line for line in axes.lines if "in use" in str(line.get_label())]
    assert mark.get_xydata().tolist() == [[8, summary.zero_variance.value]]


def test_bars_count_the_prompts(tmp_path):
    summary = summarise(tmp_path, groups_of([0, 0], [0, 1], [1, 1], [1, 1]))
    axes = compose_rollouts(summary).axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    assert (heights[0], heights[-1], sum(heights)) == (1, 2, 4)


def test_many_steps_are_averaged(tmp_path):
    summary = summarise(tmp_path, draw_groups([0.5], 4, groups=100))
    axes = compose_rollouts(summary).axes[2]
    assert len(axes.lines[0].get_xdata()) <= MOST_STEPS
    assert axes.lines[0].get_ydata().mean() == pytest.approx(
        summary.mean_reward.value, abs=0.02
    )


def test_files(tmp_path):
    summary = summarise(tmp_path, groups_of([0, 1]))
    save_figure(lambda: compose_rollouts(summary), tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match="suffix"):
        save_figure(lambda: compose_rollouts(summary), tmp_path / "a.gif")
