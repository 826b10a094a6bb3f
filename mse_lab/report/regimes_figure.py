"""Both regimes in one picture: Figure 4 on either side of the line, and the diagram.

Runs whose vanilla has a larger MSE than the oracle stand in a row above those where it has
a smaller one, each in its panel of Figure 4; beside them lies the phase diagram of all
their prompts. A run's cross in the diagram stands in its panel, too.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure, SubFigure

from mse_lab.report.drawing import RC, colours_of, legend_above, styles_of
from mse_lab.report.figure_4 import LAW, ROWS, draw_curves, find_curves, scale_row, title_of
from mse_lab.report.phase_diagram import Dots, draw_cross, draw_runs
from mse_lab.results.finished_run import Tables

# What a row says of its runs, by whether vanilla's MSE is the larger one.
SIDES = {
    True: "above the line, a baseline near V helps",
    False: "below the line, a baseline near V hurts",
}

# Inches: a panel's width and a row's height, the space beside and above panels, the
# diagram; and the size of its dots relative to that of the diagram alone.
WIDTH, HEIGHT, BESIDE, ABOVE, DIAGRAM = 1.4, 1.9, 0.45, 0.6, 3.8
DOTS = 0.35

_CAPTION = (
    "A dot is a prompt, its area its part in vanilla's MSE\n"
    "less the oracle's; a cross is the run of that panel"
)


# A run and its colour.
Drawn = tuple[Tables, str]


def _name_row(drawn: Sequence[Drawn], side: str) -> str:
    """Name the folders of the row's probes, if any, and the side that its runs lie on.

    `tiny: below the line, ...`
    """
    families = dict.fromkeys(run.name.rpartition("/")[0] for run, _ in drawn)
    return ": ".join(filter(None, [", ".join(filter(None, families)), side]))


def _draw_row(part: SubFigure, drawn: Sequence[Drawn], columns: int, side: str) -> None:
    part.suptitle(_name_row(drawn, side), fontsize=RC["axes.titlesize"], weight="bold")
    panels = part.subplots(1, columns, squeeze=False, sharey=True)[0]
    for axes, (run, colour) in zip(panels, drawn, strict=False):
        curves = find_curves(run)
        names = dict.fromkeys(curves.index.get_level_values(0))
        draw_curves(axes, curves, ROWS[0], styles_of(names))
        axes.set_title(title_of(run), fontsize=8)
        draw_cross(axes, (0.9, 0.88), colour, transform=axes.transAxes)
    for axes in panels[len(drawn) :]:
        axes.set_axis_off()
    scale_row(panels[: len(drawn)], ROWS[0].label, None)


def compose_regimes(runs: Sequence[Tables], dots: Sequence[Dots]) -> Figure:
    """Compose a row of panels for each side that has runs, and the diagram of all."""
    by_side: dict[bool, list[Drawn]] = {side: [] for side in SIDES}
    for run, prompts, colour in zip(runs, dots, colours_of(len(runs)), strict=True):
        by_side[bool(prompts.gain_shares.sum() > 0)].append((run, colour))
    by_side = {side: row for side, row in by_side.items() if row}
    columns = max(map(len, by_side.values()))
    left = BESIDE + WIDTH * columns
    height = ABOVE + HEIGHT * max(len(by_side), 2)
    figure = Figure(figsize=(left + DIAGRAM, height), layout="constrained")
    widths = (left, DIAGRAM)
    [[curves, diagram]] = figure.subfigures(1, 2, squeeze=False, width_ratios=widths)
    parts = curves.subfigures(len(by_side), 1, squeeze=False)[:, 0]
    for part, (side, row) in zip(parts, by_side.items(), strict=True):
        _draw_row(part, row, columns, SIDES[side])
    curves.supxlabel("Group size G", fontsize=RC["axes.labelsize"])
    legend_above(figure, 4, LAW)
    draw_runs(diagram.subplots(), dots, [dot.label for dot in dots], dots_size=DOTS)
    diagram.supxlabel(_CAPTION, fontsize=7.5, color="0.35")
    return figure
