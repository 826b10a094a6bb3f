"""Figure 4: MSE against group size, a drawing for each run, so that a phone stacks them."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.report.figure_4 import LABELS, draw_panel
from mse_lab.report.markup import Html, element, figure, paragraph
from mse_lab.report.vector import inline_figure
from mse_lab.report.wording import number
from mse_lab.results.finished_run import read_tables

_INTRODUCTION = (
    "The squared distance between the gradient that an estimator gives and the true one, "
    "averaged over all replicates, against the number of completions in a group. Both axes "
    "are logarithmic: a straight fall means that twice the completions halve the error. "
    "Points are measured, with their intervals; thin lines are the exact law at the run's "
    "moments, with which the points should agree. Where a run has norms only there are no "
    "points, and its laws are drawn in the bands of their intervals."
)


def _alt(source: FinishedRun) -> str:
    """Tell each curve by its ends."""
    table, column = read_tables(source.folder).mse, "law" if source.law_only else "mse"
    told = []
    for name, curve in table.groupby("estimator", sort=False):
        first, last = curve.iloc[0], curve.iloc[-1]
        label = LABELS.get(str(name), str(name))
        told.append(
            f"{label} {number(first[column])} at G = {first['group_size']} and "
            f"{number(last[column])} at G = {last['group_size']}"
        )
    by_law = ", by the law" if source.law_only else ""
    return f"MSE against group size{by_law}, {source.name}: {'; '.join(told)}"


def _compose(figure_: Figure, folder: Path) -> None:
    figure_.set_size_inches(3.3, 2.9)
    axes = figure_.add_subplot()
    draw_panel(axes, folder)
    axes.set_xlabel("Group size G")
    axes.set_ylabel("MSE of the gradient")
    # Norms only and no law leave nothing to name.
    if not axes.has_data():
        return
    figure_.legend(
        loc="outside upper center",
        ncols=3,
        frameon=False,
        columnspacing=1,
        handletextpad=0.3,
        handlelength=1.4,
    )


def _one_run(source: FinishedRun) -> Html:
    drawing = inline_figure(
        lambda figure_: _compose(figure_, source.folder), f"mse-{source.key}", _alt(source)
    )
    return figure(drawing, source.name)


def figure4_section(sources: Sequence[FinishedRun]) -> list[Html]:
    """Draw the curves of every run."""
    drawings = [_one_run(source) for source in sources]
    return [paragraph(_INTRODUCTION), element("div", *drawings, class_="row")]
