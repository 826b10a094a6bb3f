"""Figure 4: MSE against group size, a panel for each model configuration; its companion.

A figure is a function of the tables in `results/` only. Points are the replicates' MSE
with its interval, thin lines the exact law at the pool's moments. A run with norms only
has no replicates: its laws are drawn as lines with the bands of their intervals.

A rescaled estimator has another MSE and the same direction, so estimators that are biased
or follow another objective are compared by min_a E||a g_hat - g||^2
(`mse_lab.mse.decomposition`) in a companion figure, with the unbiased ones beside them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mse_lab.arrays import Floats
from mse_lab.report.drawing import (
    PAPER,
    RC,
    Style,
    draw_line,
    name_sizes,
    reach,
    save_figure,
    styles_of,
)
from mse_lab.results.finished_run import Tables, read_laws, read_tables

TITLES = {"base": "Base", "instruct": "Instruct", "icl": "ICL"}

# Neighbouring estimators are set apart by this factor on the group-size axis, so that
# their intervals do not cover one another.
DODGE = 1.08

# How points are drawn, by what is drawn.
_LOOKS: dict[str, dict[str, Any]] = {
    "mse": {"linestyle": "", "markeredgecolor": "white", "markeredgewidth": 0.5,
            "elinewidth": 1.2, "capsize": 2, "zorder": 3},
    "scale_free_mse": {"linewidth": 0.8, "elinewidth": 0.8},
}  # fmt: skip


def _intervals(curve: pd.DataFrame, column: str) -> Floats:
    return curve[[column, f"{column}_low", f"{column}_high"]].to_numpy(float)


def _points(axes: Axes, curve: pd.DataFrame, column: str, style: Style) -> None:
    sizes, intervals = curve["group_size"], _intervals(curve, column)
    axes.errorbar(
        sizes,
        intervals[:, 0],
        yerr=reach(intervals),
        marker=style.mark,
        color=style.colour,
        markersize=4,
        label=style.label,
        **_LOOKS[column],
    )


def draw_panel(axes: Axes, folder: Path) -> None:
    """Draw one run: MSE against group size, its accuracy in the title."""
    tables = read_tables(folder)
    # The paper's three where they were measured; the companion and the report show all.
    present = list(dict.fromkeys(tables.mse["estimator"]))
    styles = styles_of([name for name in PAPER if name in present] or present)
    for index, (name, style) in enumerate(styles.items()):
        curve = tables.mse[tables.mse["estimator"] == name]
        if tables.law_only:
            draw_line(axes, curve["group_size"], _intervals(curve, "law"), style)
            continue
        axes.plot(curve["group_size"], curve["law"], color=style.colour, lw=0.9, zorder=2)
        shift = DODGE ** (index - (len(styles) - 1) / 2)
        _points(axes, curve.assign(group_size=curve["group_size"] * shift), "mse", style)
    _finish_panel(axes, tables)


def _scale_free(tables: Tables, folder: Path) -> pd.DataFrame:
    """Scale-free points of a run, or those of its laws where it has norms only."""
    table = tables.mse
    if tables.law_only:
        laws = read_laws(folder)
        table = laws[laws["group_size"].isin(table["group_size"])]
    return table.dropna(subset=["scale_free_mse", "scale_free_mse_low"])


def draw_companion_panel(axes: Axes, folder: Path, styles: Mapping[str, Style]) -> None:
    """Draw one run: scale-free MSE of every estimator against group size."""
    tables = read_tables(folder)
    table = _scale_free(tables, folder)
    for name, style in styles.items():
        curve = table[table["estimator"] == name]
        if tables.law_only:
            intervals = _intervals(curve, "scale_free_mse")
            draw_line(axes, curve["group_size"], intervals, style)
        else:
            _points(axes, curve, "scale_free_mse", style)
    _finish_panel(axes, tables)


def _finish_panel(axes: Axes, tables: Tables) -> None:
    """Set the scales of a panel and its title."""
    axes.set_xscale("log", base=2)
    # Nothing at or below zero has a place on a logarithmic scale.
    nothing = -math.inf < axes.dataLim.y1 <= 0
    if not nothing:
        axes.set_yscale("log", nonpositive="clip")
    name_sizes(axes, sorted(set(tables.mse["group_size"])))
    title = TITLES.get(tables.name.rpartition("/")[2], tables.name)
    remarks = {
        "law only, no replicates": tables.law_only,
        "no error above zero": nothing,
        "A CHECK FAILED": not tables.held,
    }
    head = f"{title} (accuracy {tables.prompts['value'].mean():.2f})"
    axes.set_title("\n".join([head, *(one for one, so in remarks.items() if so)]))


def collect_handles(panels: Sequence[Axes]) -> dict[str, Any]:
    """Collect what a legend for all panels names: label -> what it stands beside."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            # The marks of replicates stand for a law's line, too.
            if label not in found or isinstance(found[label], Line2D):
                found[label] = handle
    return found


def _panels(
    folders: Sequence[Path], size: tuple[float, float], draw: Callable[[Axes, Path], None]
) -> tuple[Figure, dict[str, Any]]:
    """Draw a panel for each run; give what a legend should name."""
    figure = Figure(figsize=size, layout="constrained")
    [panels] = figure.subplots(1, len(folders), squeeze=False)
    for axes, folder in zip(panels, folders, strict=True):
        draw(axes, folder)
    figure.supxlabel("Group size G", fontsize=RC["axes.labelsize"])
    return figure, collect_handles(panels)


def _compose(folders: Sequence[Path]) -> Figure:
    size = (0.4 + 2.25 * len(folders), 2.7)
    figure, named = _panels(folders, size, draw_panel)
    figure.axes[0].set_ylabel("MSE of the gradient")
    named["exact law"] = Line2D([], [], color="0.3", linewidth=0.9)
    figure.legend(
        named.values(),
        named,
        loc="outside upper center",
        ncols=2 * len(folders),
        frameon=False,
    )
    return figure


def draw_figure(folders: Sequence[Path], output: Path) -> None:
    """Draw Figure 4 from finished runs.

    Args:
        folders: The runs, a panel each, in this order.
        output: The file; `.png`, `.pdf` or `.svg` by its suffix.

    Raises:
        InputError: A run has no tables, or the suffix or the place cannot be used.
    """
    save_figure(lambda: _compose(folders), output)


def companion_of(output: Path) -> Path:
    """Name the companion of a figure.

    >>> companion_of(Path("figures/figure4.png")).name
    'figure4-scale-free.png'
    """
    return output.with_stem(f"{output.stem}-scale-free")


def _compose_companion(folders: Sequence[Path], styles: Mapping[str, Style]) -> Figure:
    size = (1.9 + 2.6 * len(folders), 3.2)
    figure, named = _panels(
        folders, size, lambda axes, folder: draw_companion_panel(axes, folder, styles)
    )
    figure.axes[0].set_ylabel("Scale-free MSE")
    figure.legend(named.values(), named, loc="outside right center", frameon=False)
    return figure


def draw_companion(folders: Sequence[Path], output: Path) -> bool:
    """Draw the companion, if a run has estimators beyond those of Figure 4.

    Args:
        folders: The runs, a panel each.
        output: The file; `.png`, `.pdf` or `.svg` by its suffix.

    Returns:
        Whether there was anything to draw.
    """
    tables = [_scale_free(read_tables(folder), folder) for folder in folders]
    names = list(dict.fromkeys(name for table in tables for name in table["estimator"]))
    if set(names) <= set(PAPER):
        return False
    save_figure(lambda: _compose_companion(folders, styles_of(names)), output)
    return True
