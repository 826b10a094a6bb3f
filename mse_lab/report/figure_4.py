"""Figure 4: MSE against group size, a column for each model configuration; its companion.

A figure is a function of tables only, a run's files or those of a result in memory. Points
are the replicates' MSE with its interval, thin lines the exact law at the pool's moments.
Below stands the ratio to the oracle's, paired: both see the same groups, so its intervals
tell curves apart that coincide above. A run with norms only has no replicates: its laws are
drawn with the bands of their intervals.

A rescaled estimator has another MSE and the same direction, so estimators that are biased
or follow another objective are compared by min_a E||a g_hat - g||^2
(`mse_lab.mse.decomposition`) in a companion figure, together with the unbiased ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mse_lab.report.drawing import (
    RC,
    Style,
    collect_handles,
    draw_line,
    label_plainly,
    legend,
    legend_above,
    name_sizes,
    reach,
    save_figure,
    styles_of,
)
from mse_lab.results.finished_run import Tables, read_tables
from mse_lab.results.tables import BASE, FIGURE_4

TITLES = {"base": "Base", "instruct": "Instruct", "icl": "ICL"}

# Inches: a panel's width, what is left of the panels, the rows' heights, what stands above;
# of the companion's legend, its width and a line of it.
WIDTH, BESIDE, HEIGHTS, ABOVE = 2.25, 0.5, (2.0, 1.3), 0.8
LEGEND, LINE = 1.6, 0.2

# Of the group-size axis, as a factor on either side.
MARGIN = 1.15

POINTS: dict[str, Any] = {
    "linestyle": "", "markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.5,
    "elinewidth": 1.2, "capsize": 2, "zorder": 3,
}  # fmt: skip


class Quantity(NamedTuple):
    """What a figure shows: its columns in `mse.csv`, in the table of laws, of its ratio."""

    measured: str
    law: str
    ratio: str
    label: str


MSE = Quantity("mse", "law", "ratio", "MSE of the gradient")
SCALE_FREE = Quantity(
    "scale_free_mse", "scale_free_mse", "scale_free_ratio", "Scale-free MSE"
)


class Row(NamedTuple):
    """A row of panels: what is drawn as points and as lines; what is said of nothing."""

    points: str
    law: str
    nothing: str


ROWS = (
    Row("point", "law", "No error above zero,\nso nothing to draw."),
    Row("ratio", "law_ratio", "Nothing to set in\nproportion to the oracle."),
)


def _columns(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"]


def find_curves(run: Tables, quantity: Quantity) -> pd.DataFrame:
    """Find a quantity at each (estimator, group size) of a run.

    Columns: `point`, `law` and `ratio` with their intervals; `law_ratio`, without one.
    """
    keys = ["estimator", "group_size"]
    table = run.mse.set_index(keys)
    laws = table if quantity is MSE else run.laws.set_index(keys).reindex(table.index)
    curves = pd.DataFrame(index=table.index)
    for source, column, name in (
        (table, quantity.measured, "point"),
        (laws, quantity.law, "law"),
        (table, quantity.ratio, "ratio"),
    ):
        part = source.reindex(columns=_columns(column))
        curves[_columns(name)] = part.to_numpy(float)
    base = curves["law"][curves.index.isin([BASE], level=0)].droplevel(0)
    by_law = curves["law"].div(base.where(base > 0), level=1)
    # In the tables of an earlier version replicates lack their ratios.
    return curves.assign(law_ratio=by_law.where(curves["ratio"].notna() | run.law_only))


def _draw_points(axes: Axes, points: pd.DataFrame, style: Style) -> None:
    intervals = points.to_numpy()
    look = {"color": style.colour, "marker": style.mark, "label": style.label} | POINTS
    axes.errorbar(points.index, intervals[:, 0], yerr=reach(intervals), **look)


def _draw_curve(axes: Axes, curve: pd.DataFrame, row: Row, style: Style) -> None:
    """Draw an estimator's points and its law; joined without a law, or this alone."""
    points = curve[_columns(row.points)].dropna(subset=row.points)
    law = curve.reindex(columns=_columns(row.law))
    if points.empty:
        draw_line(axes, curve.index, law.to_numpy(), style)
        return
    line, dashes = (law[row.law].dropna(), "-")
    if line.empty:
        line, dashes = points[row.points], ":"
    axes.plot(line.index, line, dashes, color=style.colour, lw=0.9, zorder=2)
    _draw_points(axes, points, style)


def _drawable(curves: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Leave the curves of a row, of which a point has a place on a logarithmic axis."""
    if row.points == "ratio":
        curves = curves.drop(BASE, level=0, errors="ignore")
    return curves if (curves[[row.points, row.law]] > 0).any(axis=None) else curves[:0]


def draw_curves(
    axes: Axes, curves: pd.DataFrame, row: Row, styles: Mapping[str, Style]
) -> None:
    """Draw a row's curves of one run, or say that there is nothing to draw."""
    sizes = sorted(set(curves.index.get_level_values(1)))
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / MARGIN, sizes[-1] * MARGIN)
    name_sizes(axes, sizes)
    drawable = _drawable(curves, row)
    if drawable.empty:
        axes.text(0.5, 0.5, row.nothing, transform=axes.transAxes, ha="center", va="center")
        return
    for name in dict.fromkeys(curves.index.get_level_values(0)):
        if name in drawable.index:
            _draw_curve(axes, drawable.xs(name), row, styles[name])
        else:
            axes.axhline(1, color=styles[name].colour, linewidth=1.1)


def title_of(run: Tables) -> str:
    """Name a run, its accuracy, and what a reader of its panel must know."""
    name = TITLES.get(run.name.rpartition("/")[2], run.name)
    remarks = {
        "law only, no replicates": run.law_only,
        "A CHECK FAILED": not run.held,
    }
    head = fill(f"{name} (accuracy\u00a0{run.prompts['value'].mean():.2f})", 30)
    return "\n".join([head, *(remark for remark, so in remarks.items() if so)])


# Where a vertical axis begins and ends.
Ends = tuple[float, float]


def scale_row(panels: Sequence[Axes], label: str, ends: Ends | None) -> None:
    """Give a row of panels its common axis, where anything is drawn on it."""
    drawn = [axes for axes in panels if axes.has_data()]
    for axes in drawn[:1]:
        axes.set_yscale("log", nonpositive="clip")
        axes.set(ylim=ends, ylabel=label)
        axes.tick_params(labelleft=True)
        label_plainly(axes.yaxis)
    for axes in panels:
        if axes not in drawn:
            axes.grid(visible=False)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", which="both", left=False, labelleft=False)


def choose_curves(curves: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
    """Choose the paper's three where they were measured; else, and for others, all."""
    chosen = curves[curves.index.isin(FIGURE_4, level=0)]
    return chosen if len(chosen) and quantity is MSE else curves


def _compose_panels(
    curves: Sequence[pd.DataFrame], labels: Sequence[str], scales: Sequence[Ends]
) -> Figure:
    """Compose a column for each run; the ratios' row is left out where no run has any."""
    styles = styles_of(dict.fromkeys(name for curve in curves for name, _ in curve.index))
    rows = ROWS if any(len(_drawable(curve, ROWS[1])) for curve in curves) else ROWS[:1]
    heights = HEIGHTS[: len(rows)]
    size = (BESIDE + WIDTH * len(curves), ABOVE + sum(heights))
    figure = Figure(figsize=size, layout="constrained")
    shape = (len(rows), len(curves))
    shared: dict[str, Any] = {"sharex": "col", "sharey": "row", "height_ratios": heights}
    grid = figure.subplots(*shape, squeeze=False, **shared)
    each = zip(rows, labels, grid, [*scales, None, None], strict=False)
    for row, label, panels, ends in each:
        for axes, run_curves in zip(panels, curves, strict=True):
            draw_curves(axes, run_curves, row, styles)
        scale_row(panels, label, ends)
    figure.supxlabel("Group size G", fontsize=RC["axes.labelsize"])
    return figure


def compose(
    runs: Sequence[Tables], quantity: Quantity = MSE, scales: Sequence[Ends] = ()
) -> Figure:
    """Compose a figure with a column for each run.

    Args:
        runs: What is drawn.
        quantity: Which quantity of them.
        scales: Ends of each row's vertical axis; its own where none are given.
    """
    curves = [choose_curves(find_curves(run, quantity), quantity) for run in runs]
    figure = _compose_panels(curves, (quantity.label, "Ratio to oracle"), scales)
    for axes, run in zip(figure.axes, runs, strict=False):
        axes.set_title(title_of(run))
    law = {"exact law": Line2D([], [], color="0.3", linewidth=0.9)}
    if quantity is MSE:
        legend_above(figure, max(2, min(2 * len(runs), 4)), law)
    else:
        joined = {"no law: joined": Line2D([], [], color="0.3", lw=0.9, linestyle=":")}
        _legend_beside(figure, law | joined)
    return figure


def _legend_beside(figure: Figure, further: Mapping[str, Any]) -> None:
    """Make room beside the panels for a legend of many lines, and put it there."""
    width, height = figure.get_size_inches()
    lines = len(collect_handles(figure.axes)) + len(further) + 1
    figure.set_size_inches(width + LEGEND, max(height, LINE * lines))
    legend(figure, further, loc="outside right center")


def scales_of(runs: Sequence[Tables]) -> list[Ends]:
    """Give the scales of the figure of all runs, for those that stand apart."""
    return [axes.get_ylim() for axes in compose(runs).axes[:: len(runs)]]


def draw_figure(folders: Sequence[Path], output: Path) -> None:
    """Draw Figure 4, a column a run, into a `.png`, `.pdf` or `.svg` file.

    Raises:
        InputError: A run has no tables, or the suffix or the place cannot be used.
    """
    runs = [read_tables(folder) for folder in folders]
    save_figure(lambda: compose(runs), output)


def companion_of(output: Path) -> Path:
    """Name the companion of a figure.

    >>> companion_of(Path("figures/figure4.png")).name
    'figure4-scale-free.png'
    """
    return output.with_stem(f"{output.stem}-scale-free")


def draw_companion(folders: Sequence[Path], output: Path) -> bool:
    """Draw the companion; say whether a run has estimators beyond those of Figure 4."""
    runs = [read_tables(folder) for folder in folders]
    curves = pd.concat([find_curves(run, SCALE_FREE) for run in runs])
    curves = curves.dropna(how="all", subset=["point", "law"])
    if set(curves.index.get_level_values(0)) <= {*FIGURE_4}:
        return False
    save_figure(lambda: compose(runs, SCALE_FREE), output)
    return True
