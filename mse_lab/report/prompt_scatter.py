"""Prompts on the page: a dot each, where the ratios come from."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.ranking import middle_size
from mse_lab.arrays import Floats
from mse_lab.mse.laws import LAWS
from mse_lab.report.drawing import PAPER, Style, label_plainly
from mse_lab.report.inline_svg import Drawing, inline_panel
from mse_lab.words import number

# More dots than that become a picture, or the page grows beyond what a phone opens well.
_MOST_DOTS = 1000

# Fewer right or wrong completions give no mean worth a dot.
_FEWEST = 5

_PLAIN = Style("0.3", "o", "")
_VALUE = "Value V of the prompt"


# What a picture shows, a dot a prompt, and what draws it; None where no dot is.
Scatter = tuple[str, Callable[[Axes], None] | None]


def _dots(axes: Axes, x: Floats, y: Floats, style: Style) -> None:
    [line] = axes.plot(x, y, style.mark, color=style.colour, label=style.label)
    line.set(markersize=4, markeredgecolor="white", markeredgewidth=0.4)
    line.set_rasterized(len(x) > _MOST_DOTS)


def _left_out(known_P: NDArray[np.bool_], why: str) -> str:
    """Say how many prompts a picture leaves out."""
    return "" if known_P.all() else f" Not shown: {(~known_P).sum()} {why}."


def _draw_ratios(axes: Axes, value: Floats, ratios: Mapping[str, Floats]) -> None:
    for name, ratio in ratios.items():
        _dots(axes, value, ratio, PAPER[name])
    oracle = PAPER["oracle"]
    axes.axhline(1, color=oracle.colour, linewidth=1.1, label=oracle.label)
    axes.set(yscale="log", xlabel=_VALUE, ylabel="MSE / the oracle's")
    label_plainly(axes.yaxis)
    if ((value >= 0) & (value <= 1)).all():
        axes.set_xlim(-0.03, 1.03)


def _ratios(source: FinishedRun) -> Scatter:
    """Each prompt's MSE over the oracle's, by law."""
    size, moments = middle_size(source), source.curves.moments
    oracle = LAWS["oracle"](moments, size)
    known = oracle > 0
    if not known.any():
        return "The oracle has no measurable noise at any prompt.", None
    ratios = {
        name: LAWS[name](moments, size)[known] / oracle[known]
        for name in ("vanilla", "grpo")
    }
    below = (ratios["vanilla"] < 1).sum()
    nearer = (ratios["vanilla"] < ratios["grpo"]).sum()
    return (
        f"At G = {size}, vanilla is below the oracle at {below} of {known.sum()} prompts "
        f"and below GRPO-type at {nearer}."
        f"{_left_out(known, 'where the oracle has no measurable noise')}",
        partial(_draw_ratios, value=moments.value[known], ratios=ratios),
    )


def _draw_norms(axes: Axes, right: Floats, wrong: Floats) -> None:
    _dots(axes, wrong, right, _PLAIN)
    both = np.concatenate([right, wrong])
    ends = both.min() / 1.2, both.max() * 1.2
    axes.plot(ends, ends, color="0.45", linewidth=0.8, zorder=1)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    label_plainly(axes.xaxis)
    label_plainly(axes.yaxis)
    axes.set(xlabel="Mean ‖W‖², wrong completions", ylabel="Mean ‖W‖², right completions")


def _norms(source: FinishedRun) -> Scatter:
    """Mean ||W||^2 of right and of wrong completions, for rewards 0 and 1."""
    norms2, are_right = source.pools.norms2_PN, source.pools.rewards_PN == 1
    counts = np.array([are_right.sum(1), (~are_right).sum(1)])
    sums = np.array([(norms2 * are_right).sum(1), (norms2 * ~are_right).sum(1)])
    # A score of zero has no place on a logarithmic axis.
    known = np.all((counts >= _FEWEST) & (sums > 0), axis=0)
    if not known.any():
        return f"No prompt has {_FEWEST} right and {_FEWEST} wrong completions.", None
    right, wrong = (sums / np.maximum(counts, 1))[:, known]
    return (
        f"Right completions have the smaller scores at {(right < wrong).sum()} of "
        f"{known.sum()} prompts; median ratio of right to wrong "
        f"{number(float(np.median(right / wrong)), 2)}."
        f"{_left_out(known, f'with fewer than {_FEWEST} of either, or no score')}",
        partial(_draw_norms, right=right, wrong=wrong),
    )


def _draw_correlations(axes: Axes, value: Floats, found: Floats) -> None:
    axes.axhline(0, color="0.45", linewidth=0.8, zorder=1)
    _dots(axes, value, found, _PLAIN)
    axes.set(ylim=(-1.05, 1.05), xlabel=_VALUE, ylabel="Correlation of ‖W‖² and reward")


def _correlations(source: FinishedRun) -> Scatter:
    """Correlation of ||W||^2 and reward inside each prompt, for graded rewards."""
    pools = source.pools
    known = (pools.norms2_PN.std(1) > 0) & (pools.rewards_PN.std(1) > 0)
    if not known.any():
        return "No prompt has rewards and scores that vary.", None
    pairs = zip(pools.norms2_PN[known], pools.rewards_PN[known], strict=True)
    found = np.array([np.corrcoef(norms2, rewards)[0, 1] for norms2, rewards in pairs])
    return (
        f"Mean correlation {number(float(found.mean()), 2)}; negative at "
        f"{(found < 0).sum()} of {known.sum()} prompts."
        f"{_left_out(known, 'whose rewards or scores do not vary')}",
        partial(_draw_correlations, value=pools.value_P[known], found=found),
    )


def _drawings(source: FinishedRun) -> list[tuple[str, Drawing | None]]:
    norms = _norms if source.curves.binary else _correlations
    drawings = []
    for name, (told, draw) in {"ratio": _ratios(source), "norm": norms(source)}.items():
        alt = f"{source.name}: {told}"
        drawing = draw and inline_panel(draw, f"{name}-{source.key}", alt)
        drawings.append((told, drawing))
    return drawings


def draw_prompts(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Draw the prompts of every run: `runs`, (run, (what is told, its drawing))."""
    return {"runs": [(source, _drawings(source)) for source in sources]}
