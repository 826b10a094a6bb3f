"""The ladder's figure: steps over those of the present training, against N.

One line a row of the ladder, with the band of its interval; towards small N it is the ratio
of completions for the same error. The oracle knows each prompt's value and can be set by
nobody; it stands there as a mark of how far a baseline near the value leads.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mse_lab.answers.ladder import Ladder
from mse_lab.report.drawing import RC, STYLES, Style, draw_line, ink, legend_above
from mse_lab.report.ladder_report import setting_name

# Completions a step that are drawn, and those named on the axis.
BATCHES = tuple(float(2 ** (step / 4)) for step in range(12, 53))
NAMED = (8, 32, 128, 512, 2048, 8192)

# Beside GRPO-type's and the oracle's own, which stand for what they are.
_COLOURS = {"trainer": "#cc78bc", "best": "#0173b2"}

_LEGEND: dict[str, Any] = {
    "fontsize": RC["font.size"],
    "handlelength": 1.6,
    "columnspacing": 1.2,
    "labelspacing": 0.3,
}


def _style(name: str, label: str) -> Style:
    orange, green = STYLES["grpo"].colour, STYLES["oracle"].colour
    fixed = {
        "yours": Style(orange, "s", label),
        "size": Style(orange, "s", label, (0, (4, 1.5))),
        "oracle": Style(green, "^", label, (0, (1, 1.2))),
    }
    return fixed.get(name) or Style(_COLOURS.get(name, "0.5"), "o", label)


def _label(ladder: Ladder, name: str) -> str:
    if name == "oracle":
        return f"the oracle, G = {ladder.evidence.question.present}"
    entry, size, *_ = next(one for row, one in ladder.settings.items() if row == name)
    label = setting_name(entry, size)
    return label if name in ("yours", "size") else f"baseline {label}"


def _mark_batch(axes: Axes, completions: float) -> None:
    """Mark the user's own N."""
    axes.axvline(completions, color=ink(0.7), linewidth=0.9, linestyle=":", zorder=1)


def compose_ladder(ladder: Ladder) -> Figure:
    """Compose steps over yours against the completions of a step."""
    figure = Figure(figsize=(5.4, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="Completions a step, N", ylabel="Steps over yours")
    axes.set_xscale("log", base=2)
    seen = set()
    for name, curve in ladder.curves(BATCHES).items():
        label = _label(ladder, name)
        if label not in seen:
            draw_line(axes, BATCHES, curve, _style(name, label), band=name != "oracle")
        seen.add(label)
    axes.set_xlim(BATCHES[0], BATCHES[-1])
    axes.set_xticks(NAMED, [f"{at:,}" for at in NAMED])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, max(1.05, np.ceil(10 * axes.get_ylim()[1]) / 10))
    if ladder.evidence.question.completions:
        _mark_batch(axes, ladder.evidence.question.completions)
    legend_above(figure, 2, **_LEGEND)
    if not ladder.evidence.held:
        figure.suptitle("A CHECK FAILED")
    return figure
