"""What 1/(1 + E) predicts of trainings, and what they show beside it.

With N completions a step

    N ||g||^2 E = c1 G + c2 + c3/(G-1)    for GRPO-type,    c1 G + c_b    for a baseline b,

the constants of a run's `advice.json`, measured before any training. Against the base arm
this predicts the gain in mean reward J and its inverse, the steps to a given J, by the
ratio of 1 + E; the best step size of SGD by the same ratio, of AdamW by its square root.

The prompts that are trained on are drawn with replacement, so they are all that there are:
of P prompts that an advice took for a sample, c1 counts (1 - 1/P) times, and ||g||^2 is
that of their own mean gradient, c1/P larger. The step size of an arm is chosen on half of
the seeds and judged on the others, and the other way round.
"""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.probe.plain_text import read_text
from mse_lab.project import PROJECT
from mse_lab.report.drawing import label_plainly, legend_above, styles_of
from probes.studies.training_design import Arm, Settings, base_of, runs_of

LEVEL = 0.95

# What `advice.json` calls c2 and each c_b. The b* that best-constant-loo plugs in has noise
# of its own, which is left out: its E is a lower bound.
WITHIN = {"grpo": "c2", "vanilla": "vanilla", "best-constant-loo": "best_constant"}


class Constants(NamedTuple):
    """What predicts E: N ||g||^2 E of a baseline, c3 apart, by estimator."""

    c1: float
    within: dict[str, float]  # c2 of GRPO-type, c_b of others.
    c3: float
    gradient2: float

    def one_plus_error(self, arm: Arm) -> float:
        """1 + E of an arm."""
        size = arm.group_size
        pairs = self.c3 / (size - 1) if arm.estimator == "grpo" else 0.0
        noise = self.c1 * size + self.within[arm.estimator] + pairs
        return 1 + noise / (arm.completions_per_step * self.gradient2)


def read_constants(path: Path, prompts: int) -> Constants:
    """Read an advice, for a training on so many prompts, which it was measured on."""
    advice = json.loads(read_text(path if path.exists() else PROJECT / path))
    try:
        within = {name: advice[key]["value"] for name, key in WITHIN.items()}
        c1, c3, gradient2 = (advice[key]["value"] for key in ("c1", "c3", "gradient2"))
        sample = 0 if advice.get("population") else 1 / prompts
    except (KeyError, TypeError):
        raise InputError(f"{path}: no advice of mse_lab; name an advice.json") from None
    return Constants((1 - sample) * c1, within, c3, gradient2 + sample * c1)


def predict(settings: Settings, constants: Constants) -> pd.DataFrame:
    """Predict for each arm, over the base arm: gain, steps to a J, best step size."""
    rows = []
    for arm in dict.fromkeys(run.arm for run in runs_of(settings)):
        error = constants.one_plus_error(arm)
        ratio = constants.one_plus_error(base_of(arm, settings)) / error
        best = ratio if arm.optimiser == "sgd" else ratio**0.5
        rows.append((*arm, error, ratio, 1 / ratio, best))
    kinds = ("gain_ratio", "steps_ratio", "step_size_ratio")
    names = [*Arm._fields, "one_plus_error", *(f"predicted_{kind}" for kind in kinds)]
    return pd.DataFrame(rows, columns=names)


def steps_until(values_T: Floats, steps_T: Floats, target: float) -> float:
    """When J first reaches a target, on straight lines between the steps; else NaN.

    >>> steps_until(np.array([0.0, 0.2, 0.6]), np.array([0.0, 5.0, 15.0]), 0.4)
    10.0
    """
    for at in range(1, len(values_T)):
        low, high = values_T[at - 1], values_T[at]
        if low < target <= high:
            share = (target - low) / (high - low)
            return float(steps_T[at - 1] + share * (steps_T[at] - steps_T[at - 1]))
    return float("nan")


class Judged(NamedTuple):
    """J of an arm, seeds by steps, each seed at a step size that the others chose."""

    values: pd.DataFrame
    chosen: tuple[float, ...]  # By either half of the seeds.
    at_edge: bool  # Whether a better one may lie beyond those that were tried.

    @property
    def gains(self) -> pd.Series:
        """Gain in J up to the last step, by seed."""
        return self.values.iloc[:, -1] - self.values.iloc[:, 0]


def judge_arm(table: pd.DataFrame, columns: Sequence[str]) -> Judged | None:
    """Let even and odd seeds choose each other's step size, by the last of the columns."""
    wide = table.pivot(index="step_size", columns="seed", values=columns[-1])
    wide = wide.dropna(axis=1)  # Seeds that have run at every step size.
    halves = [wide.loc[:, wide.columns % 2 == half] for half in (0, 1)]
    if any(half.empty for half in halves):
        return None
    by_even, by_odd = (float(half.mean(axis=1).idxmax()) for half in halves)
    own = np.where(table["seed"] % 2 == 0, by_odd, by_even)
    rows = table[(table["step_size"] == own) & table["seed"].isin(wide.columns)]
    edge = {by_even, by_odd} & {wide.index.min(), wide.index.max()}
    return Judged(rows.set_index("seed")[[*columns]], (by_even, by_odd), bool(edge))


def ratio_over_seeds(tops: pd.Series, bases: pd.Series) -> tuple[float, float, float]:
    """Ratio of two means, with Student's interval of its logarithm by the jackknife.

    Seeds are paired; without an interval where there are fewer than three, or a mean of
    some is not above zero.
    """
    both = pd.concat([tops, bases], axis=1, join="inner").to_numpy(float)
    means, count = both.mean(0), len(both)
    ratio = float(means[0] / means[1]) if means[1] else float("nan")
    others = (both.sum(0) - both) / max(count - 1, 1)
    if count < 3 or others.min() <= 0 or means.min() <= 0:
        return ratio, float("nan"), float("nan")
    logs = np.log(others[:, 0] / others[:, 1])
    error = np.sqrt((count - 1) / count * ((logs - logs.mean()) ** 2).sum())
    reach = stats.t.ppf((1 + LEVEL) / 2, count - 1) * error
    return ratio, ratio * float(np.exp(-reach)), ratio * float(np.exp(reach))


def compare_two(own: Judged, base: Judged, steps_T: Floats) -> dict[str, float]:
    """Compare an arm with the base: gain, steps to the same J, best step size."""
    ratio, low, high = ratio_over_seeds(own.gains, base.gains)
    curve_T, base_T = (one.values.mean().to_numpy(float) for one in (own, base))
    if curve_T[-1] <= base_T[-1]:
        taken = steps_T[-1] / steps_until(base_T, steps_T, curve_T[-1])
    else:
        taken = steps_until(curve_T, steps_T, base_T[-1]) / steps_T[-1]
    best, base_best = (float(stats.gmean(one.chosen)) for one in (own, base))
    return {
        "seeds": len(own.values),
        "at_edge": own.at_edge,
        "gain": float(own.gains.mean()),
        "gain_ratio": ratio,
        "gain_ratio_low": low,
        "gain_ratio_high": high,
        "steps_ratio": taken,
        "step_size": best,
        "step_size_ratio": best / base_best,
    }


def compare(
    table: pd.DataFrame, settings: Settings, predicted: pd.DataFrame
) -> pd.DataFrame:
    """Compare each arm with the base arm of its optimiser, after each of the steps."""
    groups = {Arm(*key): rows for key, rows in table.groupby([*Arm._fields])}
    rows = []
    for step in settings.steps:
        steps = [0, *(one for one in settings.steps if one <= step)]
        columns = [f"step_{one}" for one in steps]
        judged = {arm: judge_arm(group, columns) for arm, group in groups.items()}
        for expected in predicted.to_dict("records"):
            arm = Arm(*(expected[name] for name in Arm._fields))
            own, base = judged.get(arm), judged.get(base_of(arm, settings))
            if own and base:
                found = compare_two(own, base, np.array(steps, dtype=float))
                rows.append({**expected, "step": step, **found})
    return pd.DataFrame(rows)


def draw_arms(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw gain over 1 + E, both over the base arm's, with the law."""
    rows = rows.sort_values("one_plus_error")
    law = rows["one_plus_error"], rows["predicted_gain_ratio"]
    axes.plot(*law, color="0.3", lw=1.2, label="the law, 1/(1 + E)")
    styles = styles_of(["grpo", *rows["estimator"].unique()])
    for (estimator, count), arms in rows.groupby(["estimator", "completions_per_step"]):
        ends = arms[["gain_ratio_low", "gain_ratio_high"]].sub(arms["gain_ratio"], axis=0)
        style, mark = styles[estimator], "osD^v<>"[int(np.log2(count)) % 7]
        axes.errorbar(
            arms["one_plus_error"],
            arms["gain_ratio"],
            ends.abs().fillna(0).T,
            fmt=mark,
            color=style.colour,
            ms=4,
            lw=0.8,
            label=f"{style.label}, N = {count}",
        )
    axes.set(xlabel="1 + E, measured before training", xscale="log", yscale="log")
    label_plainly(axes.xaxis)
    label_plainly(axes.yaxis)


def compose(comparison: pd.DataFrame) -> Figure:
    """Compose the figure: a panel for each optimiser and step, a mark an arm."""
    optimisers, steps = (comparison[name].unique() for name in ("optimiser", "step"))
    shape = len(optimisers), len(steps)
    figure = Figure(figsize=(3.4 * shape[1], 3.2 * shape[0] + 0.5), layout="constrained")
    grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    for axes, (optimiser, step) in zip(grid.flat, product(optimisers, steps), strict=True):
        here = (comparison["optimiser"] == optimiser) & (comparison["step"] == step)
        draw_arms(axes, comparison[here])
        axes.set(title=f"{optimiser}, {step} steps", ylabel="gain over the base arm's")
        axes.label_outer()
    legend_above(figure, 4)
    return figure
