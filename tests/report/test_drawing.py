"""Drawing: one look an estimator, labels of axes."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mse_lab.errors import InputError
from mse_lab.estimators import ESTIMATORS
from mse_lab.report.drawing import (
    STYLES,
    Style,
    draw_line,
    label_plainly,
    save_figure,
    styles_of,
)


def test_each_estimator_has_one_look():
    styles = styles_of(ESTIMATORS)
    looks = [(style.colour, style.mark) for style in styles.values()]
    assert len(set(looks)) == len(looks)
    assert {name: styles[name] for name in STYLES} == STYLES
    assert styles_of(["opo", "vanilla"])["vanilla"] == STYLES["vanilla"]


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((0.9, 11), ["1", "2", "5", "10"]),
        ((0.75, 1.6), ["0.8", "1", "1.2", "1.5"]),
        ((0.4, 2.4), ["0.5", "0.7", "1", "1.5", "2"]),
        ((0.9, 200), ["1", "3", "10", "30", "100"]),
        ((0.9, 9000), ["1", "10", "100", "1,000"]),
    ],
)
def test_axes_have_plain_numbers(ends, labels):
    axes = Figure().add_subplot(xscale="log", xlim=ends)
    label_plainly(axes.xaxis)
    shown = [
        label.get_text()
        for value, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if ends[0] <= value <= ends[1]
    ]
    assert shown == labels


def test_another_suffix_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(InputError, match=r"one of \.png, \.pdf, \.svg"):
        save_figure(None, tmp_path / "figure.gif")


def test_one_group_size_is_seen():
    panel = Figure().add_subplot()
    draw_line(panel, [4], np.array([[2.0, 1.0, 3.0]]), Style("0.5", "", "one"))
    assert panel.lines[0].get_marker() == "_"
