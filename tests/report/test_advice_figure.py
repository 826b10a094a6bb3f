"""The advice's figure: the same bytes every time, with and without an upper bound."""

import numpy as np
import pytest

from mse_lab.answers.advice_evidence import evidence_of_run
from mse_lab.config.training import DEFAULT
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.drawing import save_figure
from populations import sample, with_gradient
from simulated import analysed


def evidence(pools):
    return evidence_of_run(analysed(pools, [4]), DEFAULT)


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figure(tmp_path, known, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        save_figure(lambda: compose_advice(evidence(known[1])), path)
    assert paths[0].stat().st_size > 5000
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_without_an_upper_bound(tmp_path, alike):
    pools = sample(with_gradient(alike, 0.0), np.random.default_rng(7))
    figure = compose_advice(evidence(pools))
    assert "no upper bound" in figure.axes[0].get_title()
    save_figure(lambda: figure, tmp_path / "one.png")
