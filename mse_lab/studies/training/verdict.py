"""What a training study says of every arm, at every step, on each set of prompts.

J over the training prompts and J over held-out prompts are judged separately: the best size
on one set need not be the best on the other. The prediction is GRPO-type's group size;
vanilla's best is 1, whatever is measured. Arms with other weights are compared with the
main grid, seed by seed. The steps of an arm are of the same runs: no independent trials.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from mse_lab.mse.intervals import Estimate, half_width
from mse_lab.studies.training.best_sizes import Curve, judge_size, regrets
from mse_lab.studies.training.predicted_group_size import Predicted
from mse_lab.studies.training.settings import MAIN, Arm, Study, arms_of, arms_that_differ_in

# The fewest seeds for which anything is judged, and a mean has an interval.
FEWEST = 4

# Which prompts J is over -> its column in `runs.csv`.
PROMPTS = {"training": "value", "held-out": "held_out"}


def _wide(table: pd.DataFrame, arm: str, step: int, prompts: str) -> pd.DataFrame:
    """J of an arm at a step: a row for each seed that has run at every group size."""
    rows = table[(table["arm"] == arm) & (table["step"] == step)]
    wide = rows.pivot_table(index="seed", columns="group_size", values=PROMPTS[prompts])
    return wide.dropna().sort_index(axis=1)


def curve_of(table: pd.DataFrame, arm: str, step: int, prompts: str = "training") -> Curve:
    """J of an arm at a step, of the seeds that have run at every group size."""
    wide = _wide(table, arm, step, prompts)
    return Curve(wide.columns.to_numpy(float), wide.to_numpy(float))


def mean_interval(
    values_S: Any, level: float, ends: tuple[float, float] = (0.0, 1.0)
) -> Estimate:
    """Mean over seeds with Student's interval, which stays within the range of J.

    Where all values lie between the ends it is symmetric in the logit of the mean; else it
    is symmetric in the mean. Too few seeds have none.
    """
    low, high = ends
    values_S = np.asarray(values_S, dtype=float)
    mean, seeds = float(values_S.mean()), len(values_S)
    if seeds < FEWEST:
        return Estimate(mean, math.nan, math.nan)
    reach = half_width(float(stats.sem(values_S)), level, seeds - 1)
    share = (mean - low) / (high - low)
    if values_S.min() < low or values_S.max() > high or not 0 < share < 1:
        return Estimate(mean, mean - reach, mean + reach)
    logit_reach = reach / ((high - low) * share * (1 - share))
    shares = special.expit(special.logit(share) + np.array([-1, 1]) * logit_reach)
    return Estimate(mean, *(low + (high - low) * shares).tolist())


def judge_curve(curve: Curve, best: float, study: Study) -> dict[str, Any]:
    """Judge the group size that is nearest to `best`.

    `regret` is its loss, `set` the sizes that are not significantly worse than another, and
    `alike` the other sizes for which the verdict would hold, too.
    """
    seeds, at = len(curve.values_SG), curve.nearest(best)
    sizes = curve.sizes.astype(int).tolist()
    about: dict[str, Any] = {"seeds": seeds, "sizes": sizes, "verdict": "undecided"}
    about |= {"means": curve.means.tolist(), "best": curve.best, "nearest": sizes[at]}
    if seeds < FEWEST or len(sizes) < 2:
        return about
    losses = regrets(curve, study.level)
    verdicts = [judge_size(loss, losses, study.tolerance) for loss in losses]
    alike = [
        size for size, verdict in zip(sizes, verdicts, strict=True) if verdict == "holds"
    ]
    return about | {
        "set": [size for size, loss in zip(sizes, losses, strict=True) if loss.in_set],
        "regret": losses[at],
        "verdict": verdicts[at],
        "alike": [size for size in alike if size != sizes[at]],
    }


def _judge_arm(
    study: Study,
    table: pd.DataFrame,
    arm: Arm,
    predictions: Mapping[int, Predicted],
) -> list[dict[str, Any]]:
    """Judge an arm on each set of prompts, wherever it was measured."""
    rows = []
    for prompts, step in product(PROMPTS, study.evaluation.steps):
        curve = curve_of(table, arm.name, step, prompts)
        if len(curve.values_SG):
            about = {"arm": arm.name, "budget": arm.training.budget, "step": step}
            vanilla = arm.training.estimator == "vanilla"
            best = 1.0 if vanilla else predictions[step].best
            about |= {"prompts": prompts} | judge_curve(curve, best, study)
            rows.append(about)
    return rows


def _gains(table: pd.DataFrame, arm: Arm, study: Study, column: str) -> dict[str, Estimate]:
    """Compare an arm's last step with the main grid's at each group size, seed by seed."""
    last = table[table["step"] == study.steps].set_index(["group_size", "seed"])
    values, main = (last.loc[last["arm"] == name, column] for name in (arm.name, MAIN))
    by_size = (values - main).dropna().groupby(level=0)
    return {
        str(size): mean_interval(gains, study.level, (-1.0, 1.0))
        for size, gains in by_size
        if len(gains) >= FEWEST
    }


def judge_best_eta(
    study: Study, table: pd.DataFrame, predicted: Predicted, prompts: str
) -> dict[str, Any] | None:
    """Judge the last step where each group size has the eta whose J is best.

    The arms are those that differ in eta alone, the seeds those that all of them have. The
    same runs choose eta and are judged.
    """
    by_eta = {
        arm.training.eta: _wide(table, arm.name, study.steps, prompts)
        for arm in arms_that_differ_in(study, "eta")
        if (table["arm"] == arm.name).any()
    }
    seeds = sorted(set.intersection(*(set(wide.index) for wide in by_eta.values())))
    sizes = sorted(set.intersection(*(set(wide.columns) for wide in by_eta.values())))
    if len(by_eta) < 2 or not seeds or not sizes:
        return None
    values_ESG = np.stack([wide.loc[seeds, sizes] for wide in by_eta.values()])
    best_G = values_ESG.mean(1).argmax(0)
    values_GS = values_ESG[best_G, :, np.arange(len(sizes))]
    curve, etas = Curve(np.array(sizes, float), values_GS.T), list(by_eta)
    chosen = [etas[best] for best in best_G]
    about = {"step": study.steps, "prompts": prompts, "etas": etas, "chosen": chosen}
    return about | judge_curve(curve, predicted.best, study)


def judge_study(
    study: Study,
    table: pd.DataFrame,
    predictions: Mapping[int, Predicted],
) -> dict[str, Any]:
    """Judge all finished runs, for `verdict.json`.

    Args:
        study: The study.
        table: J of every run at every step, `runs.csv`.
        predictions: What was predicted, by step.
    """
    arms = [arm for arm in arms_of(study) if (table["arm"] == arm.name).any()]
    last, level = predictions[study.steps], study.level
    tuned = (judge_best_eta(study, table, last, prompts) for prompts in PROMPTS)
    return {
        "tolerance": study.tolerance,
        "predicted": {str(step): at.interval(level) for step, at in predictions.items()},
        "steps": [
            row
            for arm in arms
            if arm.training.estimator in ("grpo", "vanilla")
            for row in _judge_arm(study, table, arm, predictions)
        ],
        "best_eta": [row for row in tuned if row],
        "gains": {
            arm.name: {
                prompts: _gains(table, arm, study, column)
                for prompts, column in PROMPTS.items()
            }
            for arm in arms[1:]
        },
    }
