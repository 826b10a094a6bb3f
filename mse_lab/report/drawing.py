"""Drawing: what all figures share, from the colour of an estimator to the file.

One colour, mark and label an estimator, here and nowhere else.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.results.files import MAKER, write_output

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")

RC: dict[Any, Any] = {
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

# What is otherwise on a dark page, whose ground is that of GitHub's.
DARK: dict[str, Any] = {
    **dict(style.library["dark_background"].items()),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor"), "#0d1117"),
    "savefig.facecolor": "auto",
    "grid.color": "0.2",
}


def ink(strength: float) -> tuple[float, float, float]:
    """Give the colour of texts, or fainter: dark on a light ground, light on a dark one."""
    ground = np.array(to_rgb(mpl.rcParams["axes.facecolor"]))
    text = np.array(to_rgb(mpl.rcParams["text.color"]))
    red, green, blue = ((1 - strength) * ground + strength * text).tolist()
    return red, green, blue


class Style(NamedTuple):
    """How an estimator is drawn, in every figure."""

    colour: str
    mark: str
    label: str
    dashes: Any = "-"


# Colours that colour-blind readers can distinguish.
_PALETTE = sns.color_palette("colorblind").as_hex()

STYLES = {
    "vanilla": Style(_PALETTE[0], "o", "Vanilla"),
    "grpo": Style(_PALETTE[1], "s", "GRPO-type"),
    "oracle": Style(_PALETTE[2], "^", "Oracle"),
    "best-constant": Style("0.5", "d", "Best constant", (0, (4, 1.5))),
}
# Of runs: far from its neighbours, and none of the paper's three estimators.
_RUNS = (3, 9, 4, 8, 5, 7, 6)
_SPARE_MARKS = "DvP*XpH<>"


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Style of each estimator; those without a fixed style take what is left."""
    spare = zip(cycle(_PALETTE[3:]), cycle(_SPARE_MARKS), strict=False)
    return {name: STYLES.get(name) or Style(*next(spare), name) for name in names}


def colours_of(runs: int) -> list[str]:
    """Colours of n runs; none is one of the paper's three estimators."""
    return list(sns.color_palette([_PALETTE[place] for place in _RUNS], runs).as_hex())


def draw_line(
    axes: Axes, sizes: ArrayLike, intervals: Floats, style: Style, *, band: bool = True
) -> None:
    """Draw a curve, rows of (value, low, high), with the band of the known intervals."""
    known = ~np.isnan(intervals[:, 0])
    sizes, (value, low, high) = np.asarray(sizes)[known], intervals[known].T
    if not sizes.size:
        return
    colour, _, label, dashes = style
    if band and not np.isnan(low).all():
        axes.fill_between(sizes, low, high, color=colour, alpha=0.2, linewidth=0)
    # A single group size makes neither a line nor a band.
    single = sizes.size == 1
    mark = "_" if single else None
    axes.plot(sizes, value, color=colour, ls=dashes, lw=1.3, marker=mark, label=label)
    if single:
        axes.vlines(sizes, low, high, color=colour, linewidth=1.3)


def name_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """Put the group sizes on their axis."""
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())


def label_plainly(axis: Axis) -> None:
    """Put plain numbers on a logarithmic axis, fewer in a decade the more decades."""
    low, high = axis.get_view_interval()
    by_range = {
        4: (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
        8: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
        100: (1.0, 2.0, 5.0),
        3000: (1.0, 3.0),
    }
    subs = next((subs for most, subs in by_range.items() if high / low < most), (1.0,))
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


def legend_above(
    figure: Figure, ncols: int, further: Mapping[str, Any] | None = None, **settings: Any
) -> None:
    """Put a legend above all panels: what they show, and what further handles stand for."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            # The marks of replicates stand for a law's line, too.
            if label not in handles or isinstance(handles[label], Line2D):
                handles[label] = handle
    handles |= further or {}
    settings |= {"loc": "outside upper center", "frameon": False}
    figure.legend(list(handles.values()), list(handles), ncols=ncols, **settings)


def figure_bytes(compose: Callable[[], Figure], kind: str, *, dark: bool) -> bytes:
    """Compose a figure in the house style; the same tables give the same bytes.

    It is composed without pyplot, which would keep it for good; `kind` is `png`, `pdf` or
    `svg`.
    """
    buffer = io.BytesIO()
    marked = {
        "png": {"Software": MAKER},
        "pdf": {"Creator": MAKER, "CreationDate": None},
        "svg": {"Creator": MAKER, "Date": None},
    }[kind]
    with mpl.rc_context(RC | (DARK if dark else {})):
        compose().savefig(buffer, format=kind, dpi=300, metadata=marked)
    return buffer.getvalue()


def show_figure(compose: Callable[[], Figure]) -> Figure:
    """Compose a figure in the house style, to be looked at in Python."""
    with mpl.rc_context(RC):
        figure = compose()
        # Marks of an axis take their style when they are first drawn.
        figure.draw_without_rendering()
    return figure


def save_figure(compose: Callable[[], Figure], output: Path, *, dark: bool = False) -> None:
    """Compose a figure and write it whole or not at all."""
    kind = output.suffix.lower()
    if kind not in FIGURE_SUFFIXES:
        raise InputError(
            f"{output}: the suffix must be one of {', '.join(FIGURE_SUFFIXES)}"
        )
    write_output(output, figure_bytes(compose, kind.removeprefix("."), dark=dark))
