"""What moves a checkpoint over the line: `python probes/phase/grid.py`, without training.

Each tiny configuration at several temperatures, and with lenient rewards at temperature 1:
24 runs, 20 minutes on one core. Writes `results/phase/table.csv`, a row a run, and the path
of each checkpoint through the phase diagram; the runs stay in `build/phase/`, and a
finished one is left as it is.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mse_lab.answers.measured_run import read_run
from mse_lab.commands.cli import main
from mse_lab.commands.command_line import ROOT
from mse_lab.mse.regime import aggregate_place, crossing_size, norm_ratio, oracle_gain
from mse_lab.report.drawing import colours_of, legend_above, save_figure
from mse_lab.report.figure_4 import TITLES
from mse_lab.report.phase_diagram import draw_unit_square
from mse_lab.results.files import write_table

RAW = ROOT / "build" / "phase"
TABLE = ROOT / "results" / "phase" / "table.csv"
PICTURES = [ROOT / "figures" / f"phase-grid.{suffix}" for suffix in ("png", "pdf")]
# The checkpoints, and where beside its place a temperature is written, in points.
Shift = tuple[float, float]
MODELS: dict[str, Shift] = {"base": (-3, -11), "instruct": (-14, 4), "icl": (6, -4)}
TEMPERATURES = (0.3, 0.5, 0.7, 1.0, 1.5, 2.5)
REWARDS = {
    "exact": "integer",
    "within 2": "probes.phase.rewards:within_two",
    "parity": "probes.phase.rewards:parity",
}
MARKS = "os^"
SETTINGS = (
    "prompts.limit=30",
    "pool.reference=512",
    "pool.replicate=128",
    "group_sizes=[4, 8]",
)


class Cell(NamedTuple):
    """A configuration of the grid."""

    model: str
    temperature: float
    reward: str

    @property
    def folder(self) -> Path:
        """Where its run lies."""
        name = f"{self.reward.replace(' ', '-')}-{self.temperature}"
        return RAW / name / "tiny" / self.model

    def measure(self) -> int:
        """Run it; the exit status."""
        settings = (
            *SETTINGS,
            f"sampling.temperature={self.temperature}",
            f"reward={REWARDS[self.reward]}",
        )
        words = [word for one in settings for word in ("--set", one)]
        return main(
            ["run", f"tiny/{self.model}", *words, "--out", str(self.folder.parents[1])]
        )

    def describe(self) -> dict[str, Any]:
        """Its row of the table: V, b* and rho are those of the aggregate's place."""
        run = read_run(self.folder)
        place, gains = aggregate_place(run.moments), oracle_gain(run.moments)
        ratio = run.vanilla_trace.ratio_to(run.oracle_trace, run.level)
        return {
            **self._asdict(),
            "accuracy": run.moments.value.mean(),
            **place._asdict(),
            "rho": float(norm_ratio(place.best_baseline, place.value)),
            "vanilla_to_oracle": ratio.value,
            "vanilla_to_oracle_low": ratio.low,
            "vanilla_to_oracle_high": ratio.high,
            "grpo_better_above": float(crossing_size(gains.sum(), run.moments.zeta.sum())),
            "prompts_above": int((gains > 0).sum()),
            "prompts_below": int((gains < 0).sum()),
        }


def cells() -> Iterator[Cell]:
    """List the grid: temperatures with exact answers, then lenient rewards."""
    for model in MODELS:
        yield from (Cell(model, one, "exact") for one in TEMPERATURES)
        yield from (Cell(model, 1.0, one) for one in REWARDS if one != "exact")


def _draw_path(axes: Axes, rows: pd.DataFrame, colour: str, shift: Shift) -> None:
    """Draw the aggregate of a checkpoint at each temperature, and its lenient rewards."""
    for (reward, some), mark in zip(rows.groupby("reward", sort=False), MARKS, strict=True):
        places = some[["value", "best_baseline"]].to_numpy()
        axes.plot(*places.T, mark, color=colour, ms=6, mec="black", mew=0.5, lw=1, ls="-",
                  zorder=4)  # fmt: skip
        if reward == "exact":
            for place, temperature in zip(places, some["temperature"], strict=True):
                axes.annotate(f"{temperature:g}", place, shift, fontsize=6.5, color=colour,
                              textcoords="offset points", zorder=5)  # fmt: skip


def compose(table: pd.DataFrame) -> Figure:
    """Draw the path of each checkpoint."""
    figure = Figure(figsize=(5, 4.9), layout="constrained")
    axes = figure.subplots()
    draw_unit_square(axes)
    legend = {}
    for (model, shift), colour in zip(MODELS.items(), colours_of(len(MODELS)), strict=True):
        _draw_path(axes, table[table["model"] == model], colour, shift)
        legend[TITLES[model]] = Line2D([], [], color=colour, lw=2)
    for reward, mark in zip(REWARDS, MARKS, strict=True):
        legend[reward] = Line2D([], [], color="0.4", marker=mark, ls="")
    axes.set(xlabel="Value V", ylabel="Best constant baseline b*")
    figure.supxlabel("A mark is a run; numbers are temperatures, lenient rewards at 1",
                     fontsize=7.5, color="0.35")  # fmt: skip
    legend_above(figure, len(legend), {**legend}, fontsize=8, columnspacing=1.2)
    return figure


def measure_grid(grid: Sequence[Cell]) -> int:
    """Measure the grid, then write table and picture; 1 if a run fails."""
    if any(list(map(Cell.measure, grid))):
        return 1
    table = pd.DataFrame([cell.describe() for cell in grid])
    write_table(TABLE, table)
    for path in PICTURES:
        save_figure(lambda: compose(table), path)
    return 0


if __name__ == "__main__":
    sys.exit(measure_grid(list(cells())))
