"""Prompts on the page: a dot each, where the ratios come from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.arrays import Floats
from mse_lab.mse.laws import LAWS
from mse_lab.mse.regime import oracle_gain
from mse_lab.report.drawing import (
    MOST_DOTS,
    STYLES,
    label_plainly,
)
from mse_lab.report.layout import Image, draw_panel
from mse_lab.report.phase_diagram import as_dots, draw_runs

# Of a picture, in inches.
_SIZE = (4.0, 3.6)


# What a picture shows, a dot a prompt, and what draws it; None where no dot is.
Scatter = tuple[str, Callable[[Axes], None] | None]


def _draw_ratios(axes: Axes, value: Floats, ratios: Mapping[str, Floats]) -> None:
    """Draw a dot for each prompt and estimator."""
    for name, ratio in ratios.items():
        style = STYLES[name]
        [line] = axes.plot(value, ratio, style.mark, color=style.colour, label=style.label)
        line.set(markersize=4, markeredgecolor="white", markeredgewidth=0.4)
        line.set_rasterized(len(value) > MOST_DOTS)
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
    positive = oracle > 0
    if not positive.any():
        return "The oracle has no measurable noise at any prompt.", None
    ratios = {
        name: LAWS[name](moments, size)[positive] / oracle[positive]
        for name in ("vanilla", "grpo")
    }
    lost = (~positive).sum()
    rest = f" Not shown: {lost} where the oracle has no measurable noise." if lost else ""
    below = (ratios["vanilla"] < 1).sum()
    nearer = (ratios["vanilla"] < ratios["grpo"]).sum()
    return (
        f"At G = {size}, vanilla is below the oracle at {below} of "
        f"{positive.sum()} prompts and below GRPO-type at {nearer}.{rest}",
        partial(_draw_ratios, value=moments.value[positive], ratios=ratios),
    )


def _phase(source: FinishedRun) -> Scatter:
    """The value and the best baseline of each prompt."""
    dots = as_dots(source.name, source.prompts, source.moments)
    gains = oracle_gain(source.moments)
    return (
        f"MSE of the run: {dots.describe()}. The best baseline is nearer to V than to 0 at "
        f"{(gains > 0).sum()} of {(gains != 0).sum()} prompts.",
        partial(draw_runs, runs=[dots], labels=["the run"]),
    )


def _drawings(source: FinishedRun, size: int) -> list[tuple[str, Image | None]]:
    return [
        (caption, draw and draw_panel(draw, f"{source.name}: {caption}", _SIZE))
        for caption, draw in (_ratios(source, size), _phase(source))
    ]


def draw_prompts(sources: Sequence[FinishedRun], sizes: Iterable[int]) -> dict[str, Any]:
    """Draw the prompts of every run, each at a size: `runs`, (run, (caption, image))."""
    runs = [
        (source, _drawings(source, size))
        for source, size in zip(sources, sizes, strict=True)
    ]
    return {"runs": runs}
