"""Along a training run: the screen, the tables, and six panels with bands over prompts."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.answers.along import Along
from mse_lab.answers.statement import claims_table
from mse_lab.arrays import LARGEST, Floats
from mse_lab.formatting import number, share, table, times, with_interval, wrap
from mse_lab.mse.intervals import Estimate
from mse_lab.report.claims_report import VERDICT_WORDS
from mse_lab.report.drawing import (
    STYLES,
    Style,
    draw_line,
    label_plainly,
    reach,
    save_figure,
)
from mse_lab.results.files import write_table, write_text
from mse_lab.results.tables import interval_heads

# The colours of the run's own numbers, and of what they are compared with.
_RUN, _LINE = "0.25", "0.5"

# Of the points of a logarithmic panel, as a factor on either side.
_MARGIN = 2.5

Panel = Callable[[Axes, pd.DataFrame], None]


def intervals_of(table: pd.DataFrame, name: str) -> Floats:
    """Give a column with its interval, rows of (value, low, high)."""
    return table[interval_heads(name)].to_numpy(float)


def _draw(axes: Axes, table: pd.DataFrame, name: str, style: Style) -> None:
    steps, intervals = table["step"].to_numpy(), intervals_of(table, name)
    draw_line(axes, steps, intervals, style)
    axes.plot(steps, intervals[:, 0], style.mark, color=style.colour, ms=3.5, mec="white",
              mew=0.5)  # fmt: skip


def _near(axes: Axes, values: Floats) -> None:
    """Keep a logarithmic panel near its points; bands may leave it."""
    shown = values[np.isfinite(values) & (values > 0)]
    axes.set_yscale("log", nonpositive="clip")
    if shown.size:
        axes.set_ylim(shown.min() / _MARGIN, shown.max() * _MARGIN)


_PLAIN = Style(_RUN, "o", "")


def _draw_best(axes: Axes, table: pd.DataFrame) -> None:
    """The line has a gap where c1 is not significantly positive, so that G* is infinite."""
    finite = table.replace({math.inf: math.nan})
    _draw(axes, finite, "best_group_size", _PLAIN)
    size = int(table["group_size"].iloc[0])
    axes.axhline(size, color=_LINE, ls="--", lw=1, label=f"the run's, {size}")
    _near(axes, np.append(finite["best_group_size"], size))


def _draw_ratios(axes: Axes, table: pd.DataFrame) -> None:
    for name in ("vanilla", "grpo"):
        _draw(axes, table, name, STYLES[name])
    axes.axhline(1, color=STYLES["oracle"].colour, lw=1.3, label=STYLES["oracle"].label)
    _near(axes, table[["vanilla", "grpo"]].to_numpy(float))


def _draw_rho(axes: Axes, table: pd.DataFrame) -> None:
    _draw(axes, table, "rho", _PLAIN)
    line = table["rho_line"]
    axes.plot(table["step"], line, color=_LINE, ls="--", lw=1, label="vanilla = oracle")
    _near(axes, table[["rho", "rho_line"]].to_numpy(float))


def _draw_zero_variance(axes: Axes, table: pd.DataFrame) -> None:
    intervals = intervals_of(table, "equal_rewards")
    axes.errorbar(table["step"], intervals[:, 0], reach(intervals), fmt="o", color=_RUN,
                  ms=3.5, elinewidth=1, label="measured")  # fmt: skip
    axes.plot(table["step"], table["equal_rewards_law"], color=_LINE, ls="--", lw=1,
              label="mean of $V^G + (1-V)^G$")  # fmt: skip


def _draw_noise(axes: Axes, table: pd.DataFrame) -> None:
    value, low, high = intervals_of(table.replace({math.inf: LARGEST}), "noise_scale").T
    axes.vlines(table["step"], low, high, color=_RUN, lw=1)
    axes.plot(table["step"], value, "o", color=_RUN, ms=3.5)
    _near(axes, table["noise_scale"].to_numpy(float))


PANELS: Mapping[str, Panel] = {
    "Mean reward J": lambda axes, table: _draw(axes, table, "value", _PLAIN),
    "Best group size G*": _draw_best,
    "MSE over the oracle's": _draw_ratios,
    "ρ, right over wrong ‖W‖²": _draw_rho,
    "Zero-variance groups": _draw_zero_variance,
    "Completions N at which MSE = ‖g‖²": _draw_noise,
}


def _mark_best(axes: Axes, best: Estimate) -> None:
    if math.isfinite(best.high):
        axes.axhspan(best.low, best.high, color="tab:red", alpha=0.15, lw=0)
        label = f"for all of it, {best.value:.1f}"
        axes.axhline(best.value, color="tab:red", lw=1, ls=":", label=label)


def compose_along(table: pd.DataFrame, best: Estimate) -> Figure:
    """Compose the panels of `along.csv`; `best` is G* for all of the run."""
    figure = Figure(figsize=(7.4, 4.6), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True).flat
    for axes, (title, draw) in zip(panels, PANELS.items(), strict=True):
        draw(axes, table)
        axes.set_title(title, fontsize=8.5)
        if draw is _draw_best:
            _mark_best(axes, best)
        if axes.get_yscale() == "log":
            label_plainly(axes.yaxis)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=7, frameon=False, handlelength=1.6)
    figure.supxlabel("Training step", fontsize=9)
    return figure


def _say(along: Along) -> Iterator[str]:
    best, trajectory, level = along.best, along.trajectory, along.level
    if math.isnan(best.value):
        yield "No best group size: no reward varies."
        return
    cost = trajectory.cost(along.group_size, level)
    saved = trajectory.saved_by_switching(level)
    yield f"Best over the checkpoints, each alike: G* = {with_interval(best)}."
    yield (
        f"G = {along.group_size} takes {times(cost)} the completions of the "
        "best single size."
    )
    low, high = (share(end) for end in saved[1:])
    yield (
        f"The best size at each checkpoint would save {share(saved.value)} ({low} to "
        f"{high}) of the completions of the best single size."
    )


def _table(along: Along) -> str:
    level = f"G* ({100 * along.level:g}% interval)"
    heads = ["step", "reward", level, "vanilla", "GRPO", "rho", "zero-var."]
    rows = []
    for row, run in zip(along.table.to_dict("records"), along.runs, strict=True):
        ratios = (number(row[name]) for name in ("vanilla", "grpo", "rho"))
        reward, best = f"{row['value']:.3f}", with_interval(run.best_group_size)
        rows.append([str(row["step"]), reward, best, *ratios, share(row["equal_rewards"])])
    return table(rows, heads, ">><>>>>")


def along_text(along: Along) -> str:
    """Say what changes along the run on one screen."""
    name = along.runs[0].name.partition("/along/")[0]
    about = (
        f"{name} at {len(along.runs)} checkpoints, {along.runs[0].pools.prompts} prompts; "
        f"group size {along.group_size}; MSE of vanilla and GRPO over the oracle's"
    )
    lines = [wrap(about), "", _table(along), ""]
    lines += [wrap(sentence) for sentence in _say(along)]
    for claim in along.claims:
        lines.append(f"{VERDICT_WORDS[claim.verdict]:<10}{claim.about.says}")
        lines.append(wrap(f"{'':10}{claim.measured}", indent=10))
    return "".join(f"{line}\n" for line in lines)


def write_along(along: Along, folder: Path) -> str:
    """Write tables, screen and figure into a folder; return the screen."""
    text = along_text(along)
    write_table(folder / "along.csv", along.table)
    write_table(folder / "claims.csv", claims_table(along.claims))
    write_text(folder / "along.txt", text)
    for suffix in (".png", ".pdf"):
        output = folder / f"along{suffix}"
        save_figure(lambda: compose_along(along.table, along.best), output)
    return (
        f"{text}Written to {folder}:\n  along.csv, claims.csv, along.txt, along.png, .pdf"
    )
