"""The figure of the statements about training: Theorem 8, Corollary 9 and Lemma 6."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.report.drawing import RC, STYLES, colours_of
from mse_lab.studies.theory.study import Study

_LEGEND: dict[str, Any] = {"frameon": False, "fontsize": RC["font.size"] - 1.5}
_DASHES = (0, (4, 1.5))

_DARK, _MIDDLE, _LIGHT = colours_of(3)  # None is an estimator's.

# Corollary 9's curves: bandit, whether the sum -> colour, width, dashes, label.
_WEIGHTS: dict[tuple[str, bool], tuple[str, float, Any, str]] = {
    ("two", False): (_LIGHT, 3.0, "-", "two completions: each weight"),
    ("six", True): ("0.1", 1.2, _DASHES, "six completions: their sum"),
    ("six", False): (_MIDDLE, 1.1, "-", "six completions: each weight"),
}


def _draw_law(axes: Axes, table: pd.DataFrame) -> None:
    """Distribution of n Delta in the longer runs, marks, and the mixtures, lines."""
    longest = table[table["steps"] == table["steps"].max()]
    for name, rows in longest.groupby("estimator", sort=False):
        colour, mark, label, _ = STYLES[str(name)]
        look: dict[str, Any] = {"color": colour, "markersize": 3.2, "mec": "white"}
        axes.plot(rows["gap"], rows["limit"], color=colour, lw=1.1)
        axes.plot(rows["gap"], rows["runs"], mark, mew=0.3, label=label, **look)
    count = longest["steps"].iloc[0]
    axes.set(xlabel="(n + 200) Δ", ylabel="Share of runs below", ylim=(0, 1))
    axes.set_xlim(0, longest["gap"].quantile(0.98))
    axes.set_title(f"Theorem 8: {count:,} steps (marks), limit (lines)")
    axes.legend(loc="lower right", **_LEGEND)


def _draw_weights(axes: Axes, table: pd.DataFrame) -> None:
    """What is constant in Corollary 9, and what only tends to be."""
    for (bandit, weight), rows in table.groupby(["bandit", "weight"], sort=False):
        if look := _WEIGHTS.get((bandit, weight == "sum")):
            colour, width, dashes, label = look
            named = label if weight in ("0", "sum") else None
            axes.plot(rows["group_size"], rows["relative"], color=colour, lw=width,
                      ls=dashes, label=named)  # fmt: skip
    axes.set(xlabel="Group size G", ylabel="(w GRPO-type − w oracle) G (G − 1)")
    axes.set_xticks(range(2, 17, 2))
    axes.set_ylim(0.98, 1.03)
    axes.set_title("Corollary 9: difference relative to G = 16")
    axes.legend(loc="upper right", **_LEGEND)


def _draw_bounds(axes: Axes, table: pd.DataFrame) -> None:
    """E Delta_n for either kind of steps, its bound, and the level of a constant step."""
    for colour, (kind, rows) in zip((_DARK, _MIDDLE), table.groupby("kind"), strict=True):
        label = "constant step" if str(kind).startswith("(a)") else "step β/(i + 200)"
        axes.plot(rows["steps"], rows["gap"], color=colour, lw=1.3, label=label)
        axes.plot(rows["steps"], rows["bound"], color=colour, lw=1.1, ls=_DASHES)
    axes.plot([], [], color="0.3", lw=1.1, ls=_DASHES, label="their bounds")
    axes.axhline(table["floor"].iloc[0], color="0.3", lw=1, ls=":", label="(β/4) tr Γ")
    axes.set(xlabel="Step n", ylabel="E Δ", yscale="log")
    # Room for the legend.
    axes.set_ylim(top=axes.get_ylim()[1] * 8)
    axes.set_title("Lemma 6: mean gap and bound")
    axes.legend(loc="upper right", ncols=2, **_LEGEND)


def compose_theory(study: Study) -> Figure:
    """Compose the three panels."""
    figure = Figure(figsize=(10.2, 3.3), layout="constrained")
    law, weights, bounds = figure.subplots(1, 3)
    _draw_law(law, study.tables["theorem_8"])
    _draw_weights(weights, study.tables["corollary_9"])
    _draw_bounds(bounds, study.tables["lemma_6"])
    return figure
