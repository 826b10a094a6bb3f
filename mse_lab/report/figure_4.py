"""Figure 4: MSE against group size, a panel for each model configuration; its companion.

A figure is a function of the tables in `results/` only. Points are the replicates' MSE
with its interval, thin lines the exact law at the pool's moments. A run with norms only
has no replicates: its laws are drawn as lines with the bands of their intervals.

A rescaled estimator has another MSE and the same direction, so estimators that are biased
or follow another objective are compared by min_a E||a g_hat - g||^2
(`mse_lab.mse.decomposition`) in a companion figure, with the unbiased ones beside them.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mse_lab.report.drawing import (
    PAPER,
    RC,
    Style,
    collect_handles,
    draw_line,
    label_plainly,
    legend_above,
    name_sizes,
    reach,
    save_figure,
    styles_of,
)
from mse_lab.results.finished_run import Tables, read_tables
from mse_lab.results.records import Record

MSE, SCALE_FREE = "mse", "scale_free_mse"
TITLES = {"base": "Base", "instruct": "Instruct", "icl": "ICL"}

# Neighbouring estimators of Figure 4 are set apart by this factor on the group-size axis,
# so that their intervals do not cover one another.
DODGE = 1.08

_LOOKS: dict[str, dict[str, Any]] = {
    MSE: {"linestyle": "", "markeredgecolor": "white", "markeredgewidth": 0.5,
          "elinewidth": 1.2, "capsize": 2, "zorder": 3},
    SCALE_FREE: {"linewidth": 0.8, "elinewidth": 0.8},
}  # fmt: skip


def _columns(column: str) -> list[str]:
    return [column, f"{column}_low", f"{column}_high"]


def _curves(folder: Path, column: str) -> tuple[Tables, pd.DataFrame]:
    """Tables of a run, and its curves: the laws' in their place where it has norms only."""
    tables = read_tables(folder)
    table = tables.mse
    if column == MSE and tables.law_only:
        named = dict(zip(_columns("law"), _columns(MSE), strict=True))
        table = table.drop(columns=named.values()).rename(columns=named)
    elif tables.law_only:
        laws = Record(folder).read("laws.csv")
        table = laws[laws["group_size"].isin(table["group_size"])]
    return tables, table if column == MSE else table.dropna(subset=_columns(column)[:2])


def _draw_points(
    axes: Axes, curve: pd.DataFrame, column: str, style: Style, shift: float
) -> None:
    intervals = curve[_columns(column)].to_numpy(float)
    if column == MSE:
        axes.plot(curve["group_size"], curve["law"], color=style.colour, lw=0.9, zorder=2)
    axes.errorbar(
        curve["group_size"] * shift,
        intervals[:, 0],
        yerr=reach(intervals),
        marker=style.mark,
        color=style.colour,
        markersize=4,
        label=style.label,
        **_LOOKS[column],
    )


def draw_panel(
    axes: Axes, folder: Path, column: str = MSE, styles: Mapping[str, Style] | None = None
) -> None:
    """Draw a quantity of one run against group size, its accuracy in the title.

    Without styles the paper's three are drawn where they were measured, else all there are.
    """
    tables, table = _curves(folder, column)
    present = list(dict.fromkeys(tables.mse["estimator"]))
    styles = styles or styles_of([name for name in PAPER if name in present] or present)
    for index, (name, style) in enumerate(styles.items()):
        curve = table[table["estimator"] == name]
        if tables.law_only:
            intervals = curve[_columns(column)].to_numpy(float)
            draw_line(axes, curve["group_size"], intervals, style)
        else:
            places = index - (len(styles) - 1) / 2
            shift = DODGE**places if column == MSE else 1.0
            _draw_points(axes, curve, column, style, shift)
    _finish_panel(axes, tables)


def _finish_panel(axes: Axes, tables: Tables) -> None:
    """Set the scales of a panel and its title."""
    axes.set_xscale("log", base=2)
    # Nothing at or below zero has a place on a logarithmic scale.
    nothing = -math.inf < axes.dataLim.y1 <= 0
    if not nothing:
        axes.set_yscale("log", nonpositive="clip")
        label_plainly(axes.yaxis)
    name_sizes(axes, sorted(set(tables.mse["group_size"])))
    title = TITLES.get(tables.name.rpartition("/")[2], tables.name)
    remarks = {
        "law only, no replicates": tables.law_only,
        "no error above zero": nothing,
        "A CHECK FAILED": not tables.held,
    }
    head = f"{title} (accuracy {tables.prompts['value'].mean():.2f})"
    axes.set_title("\n".join([head, *(one for one, so in remarks.items() if so)]))


def _compose(folders: Sequence[Path], size: tuple[float, float], *quantity: Any) -> Figure:
    """Compose a panel for each run, without a legend."""
    figure = Figure(figsize=size, layout="constrained")
    [panels] = figure.subplots(1, len(folders), squeeze=False)
    for axes, folder in zip(panels, folders, strict=True):
        draw_panel(axes, folder, *quantity)
    figure.supxlabel("Group size G", fontsize=RC["axes.labelsize"])
    return figure


def draw_figure(folders: Sequence[Path], output: Path) -> None:
    """Draw Figure 4, a panel a run, into a `.png`, `.pdf` or `.svg` file.

    Raises:
        InputError: A run has no tables, or the suffix or the place cannot be used.
    """

    def compose() -> Figure:
        figure = _compose(folders, (0.4 + 2.25 * len(folders), 2.7))
        figure.axes[0].set_ylabel("MSE of the gradient")
        law = {"exact law": Line2D([], [], color="0.3", linewidth=0.9)}
        legend_above(figure, 2 * len(folders), law)
        return figure

    save_figure(compose, output)


def companion_of(output: Path) -> Path:
    """Name the companion of a figure.

    >>> companion_of(Path("figures/figure4.png")).name
    'figure4-scale-free.png'
    """
    return output.with_stem(f"{output.stem}-scale-free")


def draw_companion(folders: Sequence[Path], output: Path) -> bool:
    """Draw the companion; say whether a run has estimators beyond those of Figure 4."""
    known = pd.concat([_curves(folder, SCALE_FREE)[1] for folder in folders])
    styles = styles_of(dict.fromkeys(known["estimator"]))
    if styles.keys() <= PAPER.keys():
        return False

    def compose() -> Figure:
        size = (1.9 + 2.6 * len(folders), 3.2)
        figure = _compose(folders, size, SCALE_FREE, styles)
        figure.axes[0].set_ylabel("Scale-free MSE")
        labels, handles = zip(*collect_handles(figure.axes).items(), strict=True)
        figure.legend(handles, labels, loc="outside right center", frameon=False)
        return figure

    save_figure(compose, output)
    return True
