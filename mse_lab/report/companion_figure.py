"""The companion of Figure 4: scale-free MSE of every estimator against group size.

A rescaled estimator has another MSE and the same direction, so estimators that are biased
or follow another objective are compared by min_a E||a g_hat - g||^2 (`bias.py`), with the
unbiased ones beside them. Drawn where a run measured more than the paper's three. Of a run
with norms only the laws are drawn, as lines with their bands.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.report.figure_4 import (
    COLOURS,
    LABELS,
    PALETTE,
    STYLE,
    collect_handles,
    draw_band,
    finish_panel,
    reach,
    save_figure,
)
from mse_lab.results.finished_run import read_tables
from mse_lab.results.records import Record

_MARKS = "DvP*XpH<>d"


def companion_of(output: Path) -> Path:
    """Name the companion of a figure.

    >>> companion_of(Path("figures/figure4.png")).name
    'figure4-scale-free.png'
    """
    return output.with_stem(f"{output.stem}-scale-free")


def _curves(folder: Path) -> pd.DataFrame:
    """Read the points of a run, or those of its laws where it has norms only."""
    tables = read_tables(folder)
    table = tables.mse
    if tables.law_only:
        laws = Record(folder).read_table("laws.csv")
        table = laws[laws["group_size"].isin(table["group_size"])]
    return table.dropna(subset=["scale_free_mse", "scale_free_mse_low"])


def _styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and mark of each estimator; the paper's three keep theirs in Figure 4."""
    pairs = zip(cycle(PALETTE[3:]), cycle(_MARKS), strict=False)
    return {
        name: (COLOURS[name], "o") if name in COLOURS else next(pairs) for name in names
    }


def _draw_panel(axes: Axes, folder: Path, styles: dict[str, tuple[str, str]]) -> None:
    tables, curves = read_tables(folder), _curves(folder)
    for name, (colour, mark) in styles.items():
        curve, label = curves[curves["estimator"] == name], LABELS.get(name, name)
        if tables.law_only:
            draw_band(axes, curve, "scale_free_mse", colour, label)
            continue
        axes.errorbar(
            curve["group_size"],
            curve["scale_free_mse"],
            yerr=reach(curve, "scale_free_mse"),
            marker=mark,
            color=colour,
            markersize=4,
            linewidth=0.8,
            elinewidth=0.8,
            label=label,
        )
    finish_panel(axes, tables)


def _compose(folders: Sequence[Path], names: Sequence[str]) -> Figure:
    figure = Figure(figsize=(1.9 + 2.6 * len(folders), 3.2), layout="constrained")
    panels = figure.subplots(1, len(folders), squeeze=False)
    for axes, folder in zip(panels[0], folders, strict=True):
        _draw_panel(axes, folder, _styles(names))
    panels[0][0].set_ylabel("Scale-free MSE")
    figure.supxlabel("Group size G", fontsize=STYLE["axes.labelsize"])
    handles, labels = collect_handles(panels[0])
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    return figure


def draw_companion(folders: Sequence[Path], output: Path) -> bool:
    """Draw the companion, if a run has estimators beyond those of Figure 4.

    Args:
        folders: The runs, a panel each.
        output: The file; `.png`, `.pdf` or `.svg` by its suffix.

    Returns:
        Whether there was anything to draw.
    """
    tables = [_curves(folder) for folder in folders]
    names = list(dict.fromkeys(name for table in tables for name in table["estimator"]))
    if set(names) <= set(COLOURS):
        return False
    save_figure(lambda: _compose(folders, names), output)
    return True
