"""The advice's figure: the same bytes every time, with and without bounds and scales."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.report.advice_figure import ROOM, compose_advice
from mse_lab.report.drawing import save_figure
from populations import advise_on, sample, with_gradient


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figure(tmp_path, known, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        save_figure(lambda: compose_advice(known[2]), path)
    assert paths[0].stat().st_size > 5000
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_figure_without_upper_bound_or_relative_scale(tmp_path, alike):
    found = advise_on(sample(with_gradient(alike, 0.0), np.random.default_rng(7)))
    assert found.unbounded
    assert math.isinf(found.noise_scale.high)
    save_figure(lambda: compose_advice(found), tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 5000


def test_a_band_without_an_end_leaves_the_panel_to_the_curves(known):
    advice = known[2]
    values = [at.value for curve in advice.curves.values() for at in curve]
    wide = tuple(Estimate(at.value, 1e-9, 1e9) for at in advice.curves["grpo"])
    [axes] = compose_advice(replace(advice, curves={**advice.curves, "grpo": wide})).axes
    low, high = axes.get_ylim()
    assert min(values) / ROOM <= low < min(values)
    assert max(values) < high <= max(values) * ROOM


def test_figure_refuses_other_suffixes(tmp_path, known):
    with pytest.raises(InputError, match=r"one\.gif: the suffix must be"):
        save_figure(lambda: compose_advice(known[2]), tmp_path / "one.gif")
