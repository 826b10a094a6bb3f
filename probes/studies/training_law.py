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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.project import PROJECT
from mse_lab.records.plain_text import read_text
from mse_lab.report.drawing import label_plainly, legend_above, styles_of
from probes.studies.training_design import Arm, Settings, Trained, base_of, runs_of

LEVEL = 0.95
NAMES = {"sgd": "SGD", "adamw": "AdamW"}

# What `advice.json` calls c2 and each c_b. The b* that best-constant-loo plugs in has noise
# of its own, which is left out: its E is a lower bound.
WITHIN = {"grpo": "c2", "vanilla": "vanilla", "best-constant-loo": "best_constant"}


class Constants(NamedTuple):
    """What predicts E: N ||g||^2 E of a baseline, c3 apart, by estimator."""

    c1: float
    within: dict[str, float]  # c2 of GRPO-type, c_b of others.
    c3: float
    gradient2: float
    lams: Mapping[str, float] = MappingProxyType({"grpo": 1.0})  # Of a baseline.
    own: float | None = None  # The noise scale of TRL's own loss at its defaults.

    def one_plus_error(self, arm: Arm) -> float:
        """1 + E of an arm."""
        size = arm.group_size
        if arm.estimator not in self.within and self.own:
            return 1 + self.own / arm.completions_per_step
        lam = self.lams.get(arm.estimator, 0.0)
        pairs = lam**2 * self.c3 / (size - 1) if lam else 0.0
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


class Sums(NamedTuple):
    """Means over prompts, of a run's `prompts.csv`, in the letters of `laws.py`."""

    a: float  # E[Z^2 |W|^2] - |g|^2
    b: float  # E[Z |W|^2]
    s: float  # E|W|^2
    vb: float
    vs: float
    v2s: float
    v: float

    @classmethod
    def of(cls, table: pd.DataFrame) -> Self:
        """Take them from the columns of `prompts.csv`."""
        v_P, s_P = table["value"], table["score_norm2"]
        b_P = table["best_baseline"] * s_P
        a_P = table["trace_oracle"] + 2 * v_P * b_P - v_P**2 * s_P
        columns = (a_P, b_P, s_P, v_P * b_P, v_P * s_P, v_P**2 * s_P, v_P)
        return cls(*(float(column.mean()) for column in columns))

    def within(self, alpha: float, lam: float) -> float:
        """E[A - 2 b B + b^2 S - |g|^2] of b = alpha + lam V."""
        linear = alpha * self.b + lam * self.vb
        square = alpha**2 * self.s + 2 * alpha * lam * self.vs + lam**2 * self.v2s
        return self.a - 2 * linear + square

    def of_baseline(self, one: Trained) -> tuple[float, float]:
        """Give alpha and lambda of a baseline; means over the batch count as constants."""
        if one.weights is None:
            return one.alpha or 0.0, one.lam
        return (self.v if one.weights == "equal" else self.b / self.s), 0.0


def read_all_constants(settings: Settings, prompts: int) -> Constants:
    """Read what an advice and `prompts.csv` say of a study's arms."""
    constants = read_constants(Path(settings.advice), prompts)
    if settings.constants is None:
        return constants
    sums = Sums.of(pd.read_csv(PROJECT / settings.constants))
    names = {grid.estimator: settings.trained(grid.estimator) for grid in settings.arms}
    both = {name: sums.of_baseline(one) for name, one in names.items() if not one.own}
    own = json.loads(read_text(PROJECT / settings.advice))["noise_scale"]["value"]
    return constants._replace(
        within={"grpo": sums.within(0.0, 1.0)}
        | {name: sums.within(*pair) for name, pair in both.items()},
        lams={"grpo": 1.0} | {name: lam for name, (_, lam) in both.items()},
        own=own,
    )


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


def judge_arm(
    table: pd.DataFrame, columns: Sequence[str], chosen_by: str | None = None
) -> Judged | None:
    """Let even and odd seeds choose each other's step size, by the last of the columns.

    Or by another one, as J of trained prompts for J of others.
    """
    by = chosen_by or columns[-1]
    wide = table.pivot(index="step_size", columns="seed", values=by)
    wide = wide.dropna(axis=1)  # Seeds that have run at every step size.
    halves = [wide.loc[:, wide.columns % 2 == half] for half in (0, 1)]
    if any(half.empty for half in halves):
        return None
    by_even, by_odd = (float(half.mean(axis=1).idxmax()) for half in halves)
    chosen = np.where(table["seed"] % 2 == 0, by_odd, by_even)
    rows = table[(table["step_size"] == chosen) & table["seed"].isin(wide.columns)]
    edge = {by_even, by_odd} & {wide.index.min(), wide.index.max()}
    return Judged(rows.set_index("seed")[[*columns]], (by_even, by_odd), bool(edge))


Interval = tuple[float, float, float]  # A number, and its ends.


def over_seeds(number: Callable[[Floats], float], values_SA: Floats) -> Interval:
    """Give a function of means over seeds, with Student's interval by the jackknife."""
    count = len(values_SA)
    without_S = (values_SA.sum(0) - values_SA) / (count - 1)
    value, others_S = number(values_SA.mean(0)), np.array([*map(number, without_S)])
    error = np.sqrt((count - 1) / count * np.square(others_S - others_S.mean()).sum())
    reach = float(stats.t.ppf((1 + LEVEL) / 2, count - 1) * error)
    return value, value - reach, value + reach


def logarithm(means_A: Floats) -> Floats:
    """The logarithm, NaN of what is not above zero: an interval of it is none."""
    return np.log(np.where(means_A > 0, means_A, np.nan))


def ratio_over_seeds(tops: pd.Series, bases: pd.Series) -> Interval:
    """Ratio of two means, seeds paired, with the interval of its logarithm."""
    both_S2 = pd.concat([tops, bases], axis=1, join="inner").to_numpy(float)
    top, base = both_S2.mean(0)
    _, *ends = over_seeds(lambda means_2: float(-np.diff(logarithm(means_2))[0]), both_S2)
    return top / base, *map(float, np.exp(ends))


def compare_two(top: Judged, base: Judged, steps_T: Floats) -> dict[str, float]:
    """Compare an arm with the base: gain, steps to the same J, best step size."""
    gain, gain_low, gain_high = over_seeds(float, top.gains.to_numpy())
    ratio, low, high = ratio_over_seeds(top.gains, base.gains)
    curve_T, base_T = (one.values.mean().to_numpy(float) for one in (top, base))
    if curve_T[-1] <= base_T[-1]:
        taken = steps_T[-1] / steps_until(base_T, steps_T, curve_T[-1])
    else:
        taken = steps_until(curve_T, steps_T, base_T[-1]) / steps_T[-1]
    best, base_best = (float(stats.gmean(one.chosen)) for one in (top, base))
    return {
        "seeds": len(top.values),
        "at_edge": top.at_edge,
        "gain": gain,
        "gain_low": gain_low,
        "gain_high": gain_high,
        "gain_ratio": ratio,
        "gain_ratio_low": low,
        "gain_ratio_high": high,
        "steps_ratio": taken,
        "step_size": best,
        "step_size_ratio": best / base_best,
    }


def judge_arms(
    table: pd.DataFrame, steps: Sequence[int], kind: str, chosen_by: str
) -> dict[Arm, Judged]:
    """Judge all arms that have run, by the last of some steps."""
    columns = [f"{kind}_{step}" for step in (0, *steps)]
    groups = {Arm(*key): rows for key, rows in table.groupby([*Arm._fields])}
    by = f"{chosen_by}_{steps[-1]}"
    judged = {arm: judge_arm(rows, columns, by) for arm, rows in groups.items()}
    return {arm: one for arm, one in judged.items() if one}


def compare(
    judged: Mapping[Arm, Judged],
    settings: Settings,
    predicted: pd.DataFrame,
    steps: Sequence[int],
) -> pd.DataFrame:
    """Compare each arm with the base arm of its optimiser, after the last of some steps."""
    rows = []
    for expected in predicted.to_dict("records"):
        arm = Arm(*(expected[name] for name in Arm._fields))
        top, base = judged.get(arm), judged.get(base_of(arm, settings))
        if top and base:
            compared = compare_two(top, base, np.array([0.0, *steps]))
            rows.append({**expected, "step": steps[-1], **compared})
    return pd.DataFrame(rows)


def fit_power(gains_SA: Floats, errors_A: Floats) -> Interval:
    """By which power of 1 + E gains fall, the seeds shared by arms; the law says -1."""
    apart_A = np.log(errors_A) - np.log(errors_A).mean()
    return over_seeds(
        lambda means_A: float(apart_A @ logarithm(means_A) / (apart_A @ apart_A)), gains_SA
    )


def judge_law(
    judged: Mapping[Arm, Judged], predicted: pd.DataFrame, step: int
) -> pd.DataFrame:
    """Judge 1/(1 + E) over all arms of an optimiser, by the seeds that all of them have."""
    rows = []
    for optimiser, arms in predicted.groupby("optimiser", sort=False):
        keys = arms[[*Arm._fields]].itertuples(index=False)
        errors = dict(zip((Arm(*key) for key in keys), arms["one_plus_error"], strict=True))
        errors = {arm: error for arm, error in errors.items() if arm in judged}
        if errors:
            gains = pd.concat([judged[arm].gains for arm in errors], axis=1, join="inner")
            power = fit_power(gains.to_numpy(), np.array([*errors.values()]))
            rows.append((optimiser, step, len(errors), len(gains), *power))
    names = ("optimiser", "step", "arms", "seeds", "power", "power_low", "power_high")
    return pd.DataFrame(rows, columns=names)


def judge(
    table: pd.DataFrame,
    settings: Settings,
    predicted: pd.DataFrame,
    kind: str = "step",
    chosen_by: str = "step",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare the arms, and judge the law, after each of the steps.

    `kind` names the columns of J, `step` on trained prompts, `unseen` on the others;
    `chosen_by` those by which each arm's step size is chosen.
    """
    comparisons, laws = [], []
    for count in range(1, 1 + len(settings.steps)):
        steps = settings.steps[:count]
        judged = judge_arms(table, steps, kind, chosen_by)
        comparisons.append(compare(judged, settings, predicted, steps))
        laws.append(judge_law(judged, predicted, steps[-1]))
    return pd.concat(comparisons), pd.concat(laws)


def draw_arms(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw gains over 1 + E, with the law; its scale, the curvature, is fitted."""
    rows = rows.sort_values("one_plus_error")
    errors = rows["one_plus_error"]
    scale = stats.gmean((rows["gain"] * errors)[rows["gain"] > 0])
    axes.plot(errors, scale / errors, color="0.5", lw=1.2, label="a / (1 + E), a fitted")
    styles = styles_of(["grpo", *rows["estimator"].unique()])
    for (estimator, count), arms in rows.groupby(["estimator", "completions_per_step"]):
        ends = arms[["gain_low", "gain_high"]].sub(arms["gain"], axis=0)
        style, sizes = styles[estimator], ", ".join(map(str, arms["group_size"]))
        which = "" if estimator == "grpo" else f", G = {sizes}"
        axes.errorbar(
            arms["one_plus_error"],
            arms["gain"],
            ends.abs().T,
            fmt=style.mark,
            color=style.colour,
            ms=max(count**0.5 / 3.2, 2.5),
            lw=0.8,
            label=f"{style.label}, N = {count}{which}",
        )
    axes.set(xlabel="1 + E, measured before training", xscale="log", yscale="log")
    axes.set_ylim(rows["gain"].min() / 2, rows["gain"].max() * 2)
    label_plainly(axes.xaxis)
    label_plainly(axes.yaxis)


# Where a number may stand beside its mark, in points.
PLACES = [np.array([x, y]) for x in (7, -7) for y in (4.5, -4.5)]


def number_arms(axes: Axes, rows: pd.DataFrame) -> None:
    """Write GRPO-type's G beside each mark, where there is most room."""
    points = axes.transData.transform(rows[["one_plus_error", "gain"]])
    taken = [*points * 72 / axes.figure.dpi]  # In points.
    for point, arm in zip(taken[:], rows.itertuples(), strict=True):
        if arm.estimator != "grpo":
            continue
        room = [np.hypot(*(point + place - np.array(taken)).T).min() for place in PLACES]
        place = PLACES[int(np.argmax(room))]
        taken.append(point + place)
        axes.annotate(
            f"{arm.group_size}",
            (arm.one_plus_error, arm.gain),
            (place[0], place[1]),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=6.5,
        )


def compose(comparison: pd.DataFrame) -> Figure:
    """Compose the figure: a panel for each optimiser, a mark an arm; G beside or above."""
    last = comparison[comparison["step"] == comparison["step"].max()]
    groups = [*last.groupby("optimiser", sort=False)]
    figure = Figure(figsize=(3.6 * len(groups), 3.6), layout="constrained")
    [grid] = figure.subplots(1, len(groups), squeeze=False, sharex=True, sharey=True)
    for axes, (optimiser, rows) in zip(grid, groups, strict=True):
        draw_arms(axes, rows)
        title = f"{NAMES[str(optimiser)]}, {last['step'].max()} steps"
        axes.set(title=title, ylabel="gain in mean reward")
        axes.label_outer()
    legend_above(figure, len(groups))
    figure.draw_without_rendering()  # The panels have their places now.
    for axes, (_, rows) in zip(grid, groups, strict=True):
        number_arms(axes, rows)
    return figure
