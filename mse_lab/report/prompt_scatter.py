"""Prompts on the page: a dot each, where the ratios come from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.arrays import Floats
from mse_lab.formatting import number
from mse_lab.mse.laws import LAWS
from mse_lab.mse.regime import oracle_gain
from mse_lab.report.drawing import (
    MOST_DOTS,
    MOST_TOLD,
    STYLES,
    Style,
    label_plainly,
    tell,
)
from mse_lab.report.inline_svg import Drawing, inline_panel
from mse_lab.report.phase_diagram import as_dots, draw_panel

# Of a picture, in inches.
_SIZE = (4.0, 3.6)


# What a picture shows, a dot a prompt, and what draws it; None where no dot is.
Scatter = tuple[str, Callable[[Axes], None] | None]


def _dots(
    axes: Axes, x: Floats, y: Floats, style: Style, names: Sequence[str], told: str
) -> None:
    """Draw a dot a prompt, which tells its name and its place in the words of `told`."""
    [line] = axes.plot(x, y, style.mark, color=style.colour, label=style.label)
    line.set(markersize=4, markeredgecolor="white", markeredgewidth=0.4)
    line.set_rasterized(len(x) > MOST_DOTS)
    if len(names) <= MOST_TOLD:
        places = ([number(float(one), 2) for one in at] for at in np.transpose([x, y]))
        pairs = zip(names, places, strict=True)
        tell(line, [f"{name}: {told.format(*at)}" for name, at in pairs])


def _draw_ratios(
    axes: Axes, value: Floats, ratios: Mapping[str, Floats], names: Sequence[str]
) -> None:
    for name, ratio in ratios.items():
        told = f"V = {{}}, {STYLES[name].label} {{}} of the oracle's"
        _dots(axes, value, ratio, STYLES[name], names, told)
    oracle = STYLES["oracle"]
    axes.axhline(1, color=oracle.colour, linewidth=1.1, label=oracle.label)
    axes.set(yscale="log", xlabel="Value V of the prompt", ylabel="MSE / the oracle's")
    label_plainly(axes.yaxis)
    if ((value >= 0) & (value <= 1)).all():
        axes.set_xlim(-0.03, 1.03)


def _ratios(source: FinishedRun, size: int) -> Scatter:
    """Each prompt's MSE over the oracle's at a group size, by law."""
    moments = source.curves.moments
    oracle = LAWS["oracle"](moments, size)
    known = oracle > 0
    if not known.any():
        return "The oracle has no measurable noise at any prompt.", None
    ratios = {
        name: LAWS[name](moments, size)[known] / oracle[known]
        for name in ("vanilla", "grpo")
    }
    lost = (~known).sum()
    rest = f" Not shown: {lost} where the oracle has no measurable noise." if lost else ""
    below = (ratios["vanilla"] < 1).sum()
    nearer = (ratios["vanilla"] < ratios["grpo"]).sum()
    return (
        f"At G = {size}, vanilla is below the oracle at {below} of {known.sum()} prompts "
        f"and below GRPO-type at {nearer}.{rest}",
        partial(
            _draw_ratios,
            value=moments.value[known],
            ratios=ratios,
            names=source.described["prompt"][known].tolist(),
        ),
    )


def _phase(source: FinishedRun) -> Scatter:
    """The value and the best baseline of each prompt."""
    dots = as_dots(source.name, source.prompts, source.moments)
    gains = oracle_gain(source.moments)
    return (
        f"MSE of the run: {dots.describe()}. The best baseline is nearer to V than to 0 at "
        f"{(gains > 0).sum()} of {(gains != 0).sum()} prompts.",
        partial(draw_panel, runs=[dots], labels=["the run"]),
    )


def _drawings(source: FinishedRun, size: int) -> list[tuple[str, Drawing | None]]:
    scatters, drawings = {"ratio": _ratios(source, size), "phase": _phase(source)}, []
    for name, (told, draw) in scatters.items():
        alt = f"{source.name}: {told}"
        drawing = draw and inline_panel(draw, f"{name}-{source.key}", alt, _SIZE)
        drawings.append((told, drawing))
    return drawings


def draw_prompts(sources: Sequence[FinishedRun], sizes: Iterable[int]) -> dict[str, Any]:
    """Draw the prompts of every run, each at a size: `runs`, (run, (told, its drawing))."""
    runs = [(one, _drawings(one, size)) for one, size in zip(sources, sizes, strict=True)]
    return {"runs": runs}
