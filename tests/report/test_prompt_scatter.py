"""Prompts on the page: what is told of the dots, against what they are drawn from."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from mse_lab.answers.measured_run import read_run
from mse_lab.report import prompt_scatter
from mse_lab.report.drawing import STYLES
from mse_lab.report.inline_svg import inline_panel
from written_runs import simulate, write_run


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    pools = simulate(prompts=20, values=(0.2, 0.95))
    return read_run(write_run(tmp_path_factory.mktemp("page") / "one", pools))


def test_both_pictures_count_the_same_prompts(source):
    """Where the best baseline is nearer to 0, vanilla is below the oracle."""
    (ratios, _), (phase, _) = (
        prompt_scatter._ratios(source, 8),
        prompt_scatter._phase(source),
    )
    below, known = map(int, re.search(r"oracle at (\d+) of (\d+)", ratios).groups())
    above, unequal = map(int, re.search(r"than to 0 at (\d+) of (\d+)", phase).groups())
    assert (known, unequal) == (20, 20)
    assert 0 < below == 20 - above < 20
    best, value = source.moments.best_baseline, source.moments.value
    assert above == (abs(best - value) < best).sum()


def test_the_phase_diagram_stands_on_the_page_and_tells_its_prompts(source):
    told, draw = prompt_scatter._phase(source)
    drawing = inline_panel(draw, "phase", told)
    assert "vanilla has the smallest MSE" in drawing.shapes
    value, best = source.moments.value[0], source.prompts["best_baseline"][0]
    assert len(re.findall(r"<title>\d+[^<]*V = 0[.]\d+, b\* = ", drawing.shapes)) == 20
    assert f"V = {value:.2f}, b* = {best:.1f}" in drawing.shapes


def test_dots_tell_their_prompts_where_they_are_few():
    axes = Figure().add_subplot()
    for names in (["p1", "p2"], [f"p{index}" for index in range(201)]):
        prompt_scatter._dots(
            axes,
            np.arange(len(names)),
            np.ones(len(names)),
            STYLES["grpo"],
            names,
            "{}, {}",
        )
    few, many = (line.get_gid() for line in axes.lines)
    assert few == "told p1: 0, 1.0\np2: 1.0, 1.0"
    assert many is None
