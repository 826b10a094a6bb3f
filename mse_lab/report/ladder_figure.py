"""The ladder's figure: steps over those of the present training, against N.

One line a row of the ladder, with the band of its interval; towards small N it is the ratio
of completions for the same error. The oracle knows each prompt's value and can be set by
nobody; it stands there as a mark of how far a baseline near the value leads.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mse_lab.answers.ladder import Ladder
from mse_lab.arrays import Floats
from mse_lab.report.drawing import RC, STYLES, Style, draw_line, ink, legend_above
from mse_lab.report.ladder_report import setting_name

# Completions a step that are drawn, and those named on the axis.
BATCHES = tuple(float(2 ** (step / 4)) for step in range(12, 53))
NAMED = (8, 32, 128, 512, 2048, 8192)

# Yours in GRPO-type's colour, the oracle in its own.
_YOURS, _ORACLE = STYLES["grpo"], STYLES["oracle"]
_STYLES = {
    "yours": _YOURS,
    "size": _YOURS._replace(dashes=(0, (4, 1.5))),
    "trainer": Style("#cc78bc", "o", ""),
    "best": Style("#0173b2", "o", ""),
    "oracle": _ORACLE._replace(dashes=(0, (1, 1.2))),
}


def _label(ladder: Ladder, name: str) -> str:
    if name == "oracle":
        return f"the oracle, G = {ladder.evidence.question.present}"
    entry, size, *_ = next(one for row, one in ladder.settings.items() if row == name)
    label = setting_name(entry, size)
    return label if name in ("yours", "size") else f"baseline {label}"


def compose_ladder(ladder: Ladder) -> Figure:
    """Compose steps over yours against the completions of a step."""
    figure = Figure(figsize=(5.4, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="Completions a step, N", ylabel="Steps over yours")
    axes.set_xscale("log", base=2)
    curves: dict[str, tuple[str, Floats]] = {}
    for name, curve in ladder.curves(BATCHES).items():
        curves.setdefault(_label(ladder, name), (name, curve))
    for label, (name, curve) in curves.items():
        style = _STYLES[name]._replace(label=label)
        draw_line(axes, BATCHES, curve, style, band=name != "oracle")
    axes.set_xlim(BATCHES[0], BATCHES[-1])
    axes.set_xticks(NAMED, [f"{at:,}" for at in NAMED])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, max(1.05, np.ceil(10 * axes.get_ylim()[1]) / 10))
    if own := ladder.evidence.question.completions:
        axes.axvline(own, color=ink(0.7), linewidth=0.9, linestyle=":", zorder=1)
    sizes = {"fontsize": RC["font.size"], "handlelength": 1.6}
    legend_above(figure, 2, columnspacing=1.2, labelspacing=0.3, **sizes)
    if not ladder.evidence.held:
        figure.suptitle("A CHECK FAILED")
    return figure
