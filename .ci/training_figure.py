"""The figure of trainings that differ in their baseline: what arms gain over RLOO.

    python .ci/training_figure.py

A panel for each study of the tiny model, an arm a line: the prediction, what it gained on
trained prompts, at the arm's best rate, and on held-out ones, at that rate and at theirs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from table_cells import ROOT
from training_tables import ARMS, BASE, COLUMNS, arms_of

from mse_lab.report.drawing import Figure, colours_of, ink, label_plainly, save_figure

OUTPUT = ROOT / "figures/baselines.png"
ACROSS = 4  # Panels in a row.

# The outcomes: a study's table, the mark, how far from the line of the arm, the words.
MARKS = {
    "comparison": ("o", 0.25, "trained prompts"),
    "comparison-unseen-same": ("D", 0.0, "held-out, at trained prompts' rates"),
    "comparison-unseen": ("s", -0.25, "held-out, at the rates best there"),
}
COLOURS = dict(zip(MARKS, colours_of(3), strict=True))


def draw_study(axes: Axes, study: str, arms: list[tuple[str, int]]) -> None:
    """Draw all arms of a study that have run."""
    for name, (mark, off, _) in MARKS.items():
        found = arms_of(study, name)
        for at, arm in enumerate(arms):
            if arm not in found.index:
                continue
            row = found.loc[arm]
            if min(row.gain_low, found.loc[BASE].gain_low) <= 0:
                continue  # A ratio of what is not told from 0 is none.
            low, ratio, high = row[["gain_ratio_low", "gain_ratio", "gain_ratio_high"]]
            ends = [[ratio - low], [high - ratio]]
            style = {"fmt": mark, "color": COLOURS[name], "ms": 2.8, "lw": 1.1}
            axes.errorbar([ratio], [at + off], xerr=ends, **style)
            axes.plot([row.predicted_gain_ratio] * 2, [at - 0.4, at + 0.4], color=ink(0.6))
    axes.axvline(1, color=ink(0.3), lw=0.8)
    optimiser, count, steps = COLUMNS[study].removesuffix(" steps").split(", ")
    axes.set(
        title=f"{optimiser}, N = {count}, {steps} steps",
        xscale="log",
        xlim=(0.6, 3.2),
        ylim=(-0.7, len(arms) - 0.3),
    )
    label_plainly(axes.xaxis)
    axes.set_yticks(range(len(arms)), [f"{ARMS[name]}, {size}" for name, size in arms])


def compose() -> Figure:
    """Compose the figure: arms by their prediction."""
    first = arms_of("tiny", "comparison").sort_values("predicted_gain_ratio")
    arms = [arm for arm in first.index if arm != BASE]
    down = -(-len(COLUMNS) // ACROSS)
    figure = Figure(figsize=(9.6, 3.3 * down), layout="constrained")
    grid = figure.subplots(down, ACROSS, sharex=True, sharey=True)
    for axes, study in zip(grid.flat, COLUMNS, strict=False):
        draw_study(axes, study, arms)
    for axes in grid.flat[len(COLUMNS) :]:
        axes.set_visible(False)
    marks = [
        Line2D([], [], color=COLOURS[name], marker=mark, lw=1.1, ms=4, label=label)
        for name, (mark, _, label) in MARKS.items()
    ]
    marks.append(Line2D([], [], color=ink(0.6), marker="|", ms=9, lw=0, label="predicted"))
    figure.legend(handles=marks, loc="outside upper center", ncols=4, frameon=False)
    figure.supxlabel(
        "gain in mean reward over RLOO at G = 8 (95% intervals over seeds)", size=9.5
    )
    return figure


def save(path: Path = OUTPUT) -> None:
    """Save it, on a light and on a dark ground."""
    save_figure(compose, path)
    save_figure(compose, path.with_stem(f"{path.stem}-dark"), dark=True)


if __name__ == "__main__":
    save()
