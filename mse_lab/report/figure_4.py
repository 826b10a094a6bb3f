"""Figure 4: MSE against group size, a panel for each model configuration.

A figure is a function of the tables in `results/` only. Points are the replicates' MSE
with its interval, thin lines the exact law at the pool's moments. A run with norms only
has no replicates: its laws are drawn as lines with the bands of their intervals.
"""

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from mse_lab.errors import InputError
from mse_lab.results.files import write_bytes
from mse_lab.results.finished_run import Tables, read_tables

# One colour and mark an estimator, here and nowhere else; seaborn's colour-blind palette.
PALETTE = sns.color_palette("colorblind").as_hex()
COLOURS = {"vanilla": PALETTE[0], "grpo": PALETTE[1], "oracle": PALETTE[2]}
MARKS = {"vanilla": "o", "grpo": "s", "oracle": "^"}
LABELS = {"vanilla": "Vanilla", "grpo": "GRPO-type", "oracle": "Oracle"}
TITLES = {"base": "Base", "instruct": "Instruct", "icl": "ICL"}

SUFFIXES = (".png", ".pdf", ".svg")

# Neighbouring estimators are set apart by this factor on the group-size axis, so that
# their intervals do not cover one another.
DODGE = 1.08

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "mse_lab",
}


def _style_of(name: str, index: int) -> tuple[str, str, str]:
    """Colour, mark and label; estimators beyond the paper's three take further colours."""
    spare = PALETTE[3 + index % (len(PALETTE) - 3)]
    return COLOURS.get(name, spare), MARKS.get(name, "D"), LABELS.get(name, name)


def _draw_curve(
    axes: Axes, curve: pd.DataFrame, name: str, index: int, shift: float
) -> None:
    colour, mark, label = _style_of(name, index)
    sizes = curve["group_size"]
    axes.plot(sizes, curve["law"], color=colour, linewidth=0.9, zorder=2)
    axes.errorbar(
        sizes * shift,
        curve["mse"],
        yerr=reach(curve, "mse"),
        fmt=mark,
        color=colour,
        markersize=4,
        markeredgecolor="white",
        markeredgewidth=0.5,
        elinewidth=1.2,
        capsize=2,
        label=label,
        zorder=3,
    )


def reach(curve: pd.DataFrame, column: str) -> list["pd.Series[float]"]:
    """How far the intervals reach below and above their points.

    Where one misses its point, as at a level near zero, it reaches no way on that side.
    """
    value, low, high = (curve[f"{column}{end}"] for end in ("", "_low", "_high"))
    return [(value - low).clip(lower=0), (high - value).clip(lower=0)]


def draw_band(
    axes: Axes, curve: pd.DataFrame, column: str, colour: str, label: str
) -> None:
    """Draw a law as a line in the band of its interval; nothing where there is none."""
    known = curve.dropna(subset=[column, f"{column}_low"])
    if known.empty:
        return
    sizes, ends = known["group_size"], (known[f"{column}_low"], known[f"{column}_high"])
    axes.fill_between(sizes, *ends, color=colour, alpha=0.2, linewidth=0)
    # One group size makes neither a line nor a band.
    alone = len(known) == 1
    mark = "_" if alone else None
    axes.plot(sizes, known[column], color=colour, linewidth=1.3, marker=mark, label=label)
    if alone:
        axes.vlines(sizes, *ends, color=colour, linewidth=1.3)


def draw_panel(axes: Axes, folder: Path) -> None:
    """Draw one run: MSE against group size, its accuracy in the title."""
    tables = read_tables(folder)
    table = tables.mse
    # The paper's three where they were measured; the companion and the report show all.
    present = list(dict.fromkeys(table["estimator"]))
    names = [name for name in COLOURS if name in present] or present
    for index, estimator in enumerate(names):
        curve = table[table["estimator"] == estimator]
        shift = DODGE ** (index - (len(names) - 1) / 2)
        if tables.law_only:
            colour, _, label = _style_of(estimator, index)
            draw_band(axes, curve, "law", colour, label)
        else:
            _draw_curve(axes, curve, estimator, index, shift)
    finish_panel(axes, tables)


def finish_panel(axes: Axes, tables: Tables) -> None:
    """Set the scales of a panel and its title."""
    axes.set_xscale("log", base=2)
    # Nothing at or below zero has a place on a logarithmic scale.
    nothing = -math.inf < axes.dataLim.y1 <= 0
    if not nothing:
        axes.set_yscale("log", nonpositive="clip")
    sizes = sorted(set(tables.mse["group_size"]))
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    title = TITLES.get(tables.name.rpartition("/")[2], tables.name)
    law_only = "\nlaw only, no replicates" if tables.law_only else ""
    zero = "\nno error above zero" if nothing else ""
    failed = "" if tables.held else "\nA CHECK FAILED"
    accuracy = f"{tables.prompts['value'].mean():.2f}"
    axes.set_title(f"{title} (accuracy {accuracy}){law_only}{zero}{failed}")


def collect_handles(panels: Sequence[Axes]) -> tuple[list[Any], list[str]]:
    """Collect what a legend for all panels names, each label once."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            # The marks of replicates stand for a law's line, too.
            if label not in found or isinstance(found[label], Line2D):
                found[label] = handle
    return list(found.values()), list(found)


def _compose(folders: Sequence[Path]) -> Figure:
    figure = Figure(figsize=(0.4 + 2.25 * len(folders), 2.7), layout="constrained")
    panels = figure.subplots(1, len(folders), squeeze=False)
    for axes, folder in zip(panels[0], folders, strict=True):
        draw_panel(axes, folder)
    panels[0][0].set_ylabel("MSE of the gradient")
    figure.supxlabel("Group size G", fontsize=STYLE["axes.labelsize"])
    handles, labels = collect_handles(panels[0])
    handles.append(Line2D([], [], color="0.3", linewidth=0.9))
    labels.append("exact law")
    columns = 2 * len(folders)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
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


def save_figure(compose: Callable[[], Figure], output: Path) -> None:
    """Compose a figure in the house style and write it.

    Args:
        compose: Makes the figure, without pyplot, which would keep it for good.
        output: The file; `.png`, `.pdf` or `.svg` by its suffix.

    Raises:
        InputError: The suffix or the place cannot be used.
    """
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"{output}: the suffix must be one of {', '.join(SUFFIXES)}")
    with mpl.rc_context(STYLE):
        write_figure(compose(), output)


def write_figure(figure: Figure, output: Path) -> None:
    """Write a figure whole or not at all; the same tables give the same bytes."""
    buffer = io.BytesIO()
    kind = output.suffix.lower().removeprefix(".")
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
    figure.savefig(buffer, format=kind, dpi=300, metadata=dated)
    write_bytes(output, buffer.getvalue())
