"""The advice's figure: the same bytes every time, with and without bounds and scales."""

import math

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.report.advice_figure import draw_advice
from populations import advise_on, sample, with_gradient


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figure(tmp_path, known, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        draw_advice(known[2], path)
    assert paths[0].stat().st_size > 5000
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_figure_without_upper_bound_or_relative_scale(tmp_path, alike):
    rng = np.random.default_rng(7)
    found = advise_on(sample(with_gradient(alike, 0.0), rng))
    assert found.unbounded
    assert math.isinf(found.noise_scale.high)
    draw_advice(found, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 5000


def test_figure_refuses_other_suffixes(tmp_path, known):
    with pytest.raises(InputError, match=r"one\.gif: the suffix must be"):
        draw_advice(known[2], tmp_path / "one.gif")
