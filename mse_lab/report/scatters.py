"""Scatters: prompt by prompt, where the ratios come from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from mse_lab.answers.ranking import middle_size
from mse_lab.answers.source import Source
from mse_lab.arrays import Floats
from mse_lab.mse.laws import LAWS
from mse_lab.report.figure_4 import COLOURS, LABELS, MARKS
from mse_lab.report.markup import Html, article, element, figure, paragraph
from mse_lab.report.vector import inline_figure
from mse_lab.report.wording import number

# More dots than that become a picture, or the page grows beyond what a phone opens well.
_MOST_DOTS = 1000

# Fewer right or wrong completions give no mean worth a dot.
_FEWEST = 5

_INTRODUCTION = (
    "Each dot is a prompt. The first picture of a run shows how the MSE of a prompt, "
    "relative to the oracle's, depends on how often the model is right there; by the "
    "exact law at the prompt's moments, so without the replicates' noise. The second "
    "shows how score and reward hang together. The paper's Assumption 2, that they do "
    "not, puts the dots around the line; below it right completions have the smaller "
    "scores, so that the best baseline lies below the value V, and vanilla's baseline of "
    "zero may be the nearer one."
)


def _scale(axis: Axis) -> None:
    """Put plain numbers on a logarithmic axis, fewer in a decade the more decades."""
    low, high = axis.get_view_interval()
    by_decades = {30: (1.0, 2.0, 5.0), 1000: (1.0, 3.0)}
    subs = next((subs for most, subs in by_decades.items() if high / low < most), (1.0,))
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


def _dots(axes: Axes, x: Floats, y: Floats, name: str, label: str | None) -> None:
    axes.plot(
        x,
        y,
        MARKS.get(name, "o"),
        color=COLOURS.get(name, "0.3"),
        markersize=4,
        markeredgecolor="white",
        markeredgewidth=0.4,
        label=label,
        rasterized=len(x) > _MOST_DOTS,
    )


def _left_out(which_P: NDArray[np.bool_], why: str) -> str:
    """Say how many prompts a picture leaves out."""
    return f" Not shown: {which_P.sum()} {why}." if which_P.any() else ""


class _Scatter(Protocol):
    """A picture with a dot for each prompt that it can show."""

    dots: int

    def compose(self, figure_: Figure) -> None:
        """Draw it; needs a dot."""

    def tell(self) -> str:
        """Say in a sentence or two what it shows, and what not."""


class _Ratios:
    """Each prompt's MSE over the oracle's, by law."""

    def __init__(self, source: Source) -> None:
        self.size = middle_size(source)
        moments = source.curves.moments
        oracle = LAWS["oracle"](moments, self.size)
        self.known = oracle > 0
        self.dots = int(self.known.sum())
        self.value = moments.value[self.known]
        self.by_name = {
            name: LAWS[name](moments, self.size)[self.known] / oracle[self.known]
            for name in ("grpo", "vanilla")
        }

    def compose(self, figure_: Figure) -> None:
        """Draw value against ratio."""
        figure_.set_size_inches(3.3, 2.9)
        axes = figure_.add_subplot()
        for name in ("vanilla", "grpo"):
            ratio = self.by_name[name]
            _dots(axes, self.value, ratio, name, LABELS[name])
        axes.axhline(1, color=COLOURS["oracle"], linewidth=1.1, label=LABELS["oracle"])
        axes.set_yscale("log", nonpositive="clip")
        _scale(axes.yaxis)
        if (self.value >= 0).all() and (self.value <= 1).all():
            axes.set_xlim(-0.03, 1.03)
        axes.set_xlabel("Value V of the prompt")
        axes.set_ylabel("MSE / the oracle's")
        figure_.legend(loc="outside upper center", ncols=3, frameon=False)

    def tell(self) -> str:
        """Count the prompts on either side."""
        if not self.dots:
            return "The oracle has no measurable noise at any prompt."
        below = int((self.by_name["vanilla"] < 1).sum())
        nearer = int((self.by_name["vanilla"] < self.by_name["grpo"]).sum())
        return (
            f"At G = {self.size}, vanilla is below the oracle at {below} of {self.dots} "
            f"prompts and below GRPO-type at {nearer}."
            f"{_left_out(~self.known, 'where the oracle has no measurable noise')}"
        )


class _Norms:
    """Mean ||W||^2 of right and of wrong completions, for rewards 0 and 1."""

    def __init__(self, source: Source) -> None:
        norms2, right = source.pools.norms2_PN, source.pools.rewards_PN == 1
        counts = right.sum(1)
        many = (counts >= _FEWEST) & (right.shape[1] - counts >= _FEWEST)
        # A score of zero has no place on a logarithmic axis.
        self.known = many & (np.where(right, norms2, 0).sum(1) > 0)
        self.known &= np.where(right, 0, norms2).sum(1) > 0
        self.dots = int(self.known.sum())
        chosen, right = norms2[self.known], right[self.known]
        self.right = (chosen * right).sum(1) / right.sum(1)
        self.wrong = (chosen * ~right).sum(1) / (~right).sum(1)

    def compose(self, figure_: Figure) -> None:
        """Draw right against wrong, with the diagonal."""
        figure_.set_size_inches(3.3, 2.9)
        axes = figure_.add_subplot()
        _dots(axes, self.wrong, self.right, "", None)
        axes.set_xscale("log", nonpositive="clip")
        axes.set_yscale("log", nonpositive="clip")
        both = np.concatenate([self.right, self.wrong])
        ends = both.min() / 1.2, both.max() * 1.2
        axes.plot(ends, ends, color="0.45", linewidth=0.8, zorder=1)
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        _scale(axes.xaxis)
        _scale(axes.yaxis)
        axes.set_xlabel("Mean ‖W‖², wrong completions")
        axes.set_ylabel("Mean ‖W‖², right completions")

    def tell(self) -> str:
        """Count the prompts below the diagonal."""
        if not self.dots:
            return f"No prompt has {_FEWEST} right and {_FEWEST} wrong completions."
        below = int((self.right < self.wrong).sum())
        ratio = number(float(np.median(self.right / self.wrong)), 2)
        return (
            f"Right completions have the smaller scores at {below} of {self.dots} prompts; "
            f"median ratio of right to wrong {ratio}."
            f"{_left_out(~self.known, f'with fewer than {_FEWEST} of either, or no score')}"
        )


class _Correlations:
    """Correlation of ||W||^2 and reward inside each prompt, for graded rewards."""

    def __init__(self, source: Source) -> None:
        pools = source.pools
        moving = (pools.norms2_PN.std(1) > 0) & (pools.rewards_PN.std(1) > 0)
        self.known = moving
        self.dots = int(moving.sum())
        self.value = pools.value_P[moving]
        self.found = np.array(
            [
                np.corrcoef(norms2, rewards)[0, 1]
                for norms2, rewards in zip(
                    pools.norms2_PN[moving], pools.rewards_PN[moving], strict=True
                )
            ]
        )

    def compose(self, figure_: Figure) -> None:
        """Draw value against correlation, with the zero of Assumption 2."""
        figure_.set_size_inches(3.3, 2.9)
        axes = figure_.add_subplot()
        axes.axhline(0, color="0.45", linewidth=0.8, zorder=1)
        _dots(axes, self.value, self.found, "", None)
        axes.set_ylim(-1.05, 1.05)
        axes.set_xlabel("Value V of the prompt")
        axes.set_ylabel("Correlation of ‖W‖² and reward")

    def tell(self) -> str:
        """Average, and count the prompts below zero."""
        if not self.dots:
            return "No prompt has rewards and scores that vary."
        below = int((self.found < 0).sum())
        mean = number(float(self.found.mean()), 2)
        return (
            f"Mean correlation {mean}; negative at {below} of {self.dots} prompts."
            f"{_left_out(~self.known, 'whose rewards or scores do not vary')}"
        )


def _drawing(source: Source, name: str, scatter: _Scatter) -> Html:
    """Draw a scatter; where it has no dot, say why."""
    told = scatter.tell()
    if not scatter.dots:
        return paragraph(told)
    alt = f"{source.name}: {told}"
    return figure(inline_figure(scatter.compose, f"{name}-{source.key}", alt), told)


def _one_run(source: Source) -> Html:
    norms = _Norms(source) if source.curves.binary else _Correlations(source)
    drawings = [
        _drawing(source, "ratio", _Ratios(source)),
        _drawing(source, "norm", norms),
    ]
    return article(
        source.name, element("div", *drawings, class_="row"), key=f"prompts-{source.key}"
    )


def scatters_section(sources: Sequence[Source]) -> list[Html]:
    """Draw the prompts of every run."""
    return [paragraph(_INTRODUCTION), *(_one_run(source) for source in sources)]
