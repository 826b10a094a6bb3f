"""What a training study says: tests A, B and C (`peak.py`) of every arm at every step.

A prediction is of GRPO-type's group size; vanilla's best is one, whatever is measured. Arms
with other weights are compared with the main grid, seed by seed. Where J does not differ
over the group sizes, every test of the step is undecided: it cannot tell.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from mse_lab.answers.judgement import Verdict
from mse_lab.answers.peak import (
    FALSE,
    Curve,
    judge_line,
    judge_peak,
    judge_set,
    measure_peak,
    regrets,
)
from mse_lab.answers.predicted_group_size import Predicted
from mse_lab.mse.intervals import Estimate
from mse_lab.probe.study import MAIN, Arm, Study, arms_of, arms_that_differ_in

# Seeds below which nothing is tested.
FEWEST = 3

TESTS = {
    "A": "the peak of J over G is where it was predicted",
    "B": "the group size nearest the predicted one is among the best",
    "C": "J is linear in the path's N MSE",
}


def _wide(table: pd.DataFrame, arm: str, step: int, column: str = "value") -> pd.DataFrame:
    """J of an arm at a step: a row for each seed that has run at every group size."""
    rows = table[(table["arm"] == arm) & (table["step"] == step)]
    wide = rows.pivot_table(index="seed", columns="group_size", values=column)
    return wide.dropna().sort_index(axis=1)


def curve_of(table: pd.DataFrame, arm: str, step: int, column: str = "value") -> Curve:
    """Take J of an arm at a step, of the seeds that have run at every group size."""
    wide = _wide(table, arm, step, column)
    return Curve(wide.columns.to_numpy(float), wide.to_numpy(float))


def mean_interval(values_S: Any, level: float) -> Estimate:
    """Mean over seeds with Student's interval."""
    count, mean = len(values_S), float(np.mean(values_S))
    if count < 2:
        return Estimate(mean, math.nan, math.nan)
    error = float(np.std(values_S, ddof=1)) / math.sqrt(count)
    reach = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    return Estimate(mean, mean - reach, mean + reach)


def _peak_rows(curve: Curve, predicted: Predicted, study: Study) -> dict[str, Any]:
    """Tests A and C, of GRPO-type."""
    peak, level = measure_peak(curve), study.level
    line, p_value = judge_line(curve, predicted, level)
    return {
        "A": judge_peak(peak, predicted, level),
        "peak": peak.interval(level),
        "log_missed": peak.missed_by(predicted, level),
        "log_missed_false": peak.missed_by(predicted, level, FALSE),
        "C": line,
        "lack_of_fit_p": p_value,
    }


def judge_step(curve: Curve, predicted: Predicted | None, study: Study) -> dict[str, Any]:
    """Judge an arm at a step; without a prediction the best group size is one."""
    seeds = len(curve.values_SG)
    found: dict[str, Any] = {"seeds": seeds, "sizes": curve.sizes.astype(int).tolist()}
    undecided: Verdict = "undecided"
    if seeds < FEWEST or len(curve.sizes) < 2:
        return found | {"B": undecided}
    best = predicted.best if predicted else 1.0
    compared, p_value = regrets(curve, study.level), curve.differ()
    found |= {
        "means": curve.means.tolist(),
        "differ_p": p_value,
        "predicted": predicted.interval(study.level) if predicted else best,
        "nearest": int(curve.sizes[curve.nearest(best)]),
        "best": int(curve.sizes[np.argmax(curve.means)]),
        "set": [int(g) for g, one in zip(curve.sizes, compared, strict=True) if one.in_set],
        "regret": compared[curve.nearest(best)][:3],
        "B": judge_set(curve, compared, best, study.tolerance),
    }
    if predicted:
        found |= _peak_rows(curve, predicted, study)
    if p_value > 1 - study.level:
        found |= {test: undecided for test in TESTS if test in found}
    return found


def _predicted_for(arm: Arm, predictions: Mapping[int, Predicted], step: int) -> Any:
    return None if arm.training.estimator == "vanilla" else predictions[step]


def _gains(table: pd.DataFrame, arm: Arm, step: int, level: float) -> dict[str, Estimate]:
    """Compare an arm with the main grid at each group size, seed by seed."""
    last = table[table["step"] == step]
    index, both = ["group_size", "seed"], []
    for name in (arm.name, MAIN):
        both.append(last[last["arm"] == name].set_index(index)["value"])
    apart = (both[0] - both[1]).dropna()
    sizes = sorted(set(apart.index.get_level_values(0)))
    return {str(size): mean_interval(apart.loc[size], level) for size in sizes}


def _held_out(table: pd.DataFrame, arm: Arm, step: int) -> dict[str, float]:
    """Mean J over seeds of held-out prompts, at each group size; empty without any."""
    curve = curve_of(table, arm.name, step, "held_out")
    if not len(curve.values_SG):
        return {}
    pairs = zip(curve.sizes.astype(int), curve.means, strict=True)
    return {str(size): float(mean) for size, mean in pairs}


def judge_best_eta(
    study: Study, table: pd.DataFrame, predicted: Predicted
) -> dict[str, Any] | None:
    """Judge the last step of the eta that trains best at each group size.

    Of the arms that differ in eta alone, and the seeds that all of them have; the runs that
    choose are those that are judged. C is of one eta and is left out.
    """
    found = {
        arm.training.eta: _wide(table, arm.name, study.steps)
        for arm in arms_that_differ_in(study, "eta")
        if (table["arm"] == arm.name).any()
    }
    if len(found) < 2:
        return None
    seeds = sorted(set.intersection(*(set(wide.index) for wide in found.values())))
    sizes = sorted(set.intersection(*(set(wide.columns) for wide in found.values())))
    if not seeds or not sizes:
        return None
    values_ESG = np.stack([wide.loc[seeds, sizes] for wide in found.values()])
    best_G = values_ESG.mean(1).argmax(0)
    values_GS = values_ESG[best_G, :, np.arange(len(sizes))]
    curve, etas = Curve(np.array(sizes, float), values_GS.T), list(found)
    judged = judge_step(curve, predicted, study)
    kept = {key: one for key, one in judged.items() if key not in ("C", "lack_of_fit_p")}
    chosen = [etas[best] for best in best_G]
    return {"step": study.steps, "etas": etas, "chosen": chosen} | kept


def judge_study(
    study: Study, table: pd.DataFrame, predictions: Mapping[int, Predicted]
) -> dict[str, Any]:
    """Judge everything that has run, for `verdict.json`.

    Args:
        study: The study.
        table: J of every run at every step, `runs.csv`.
        predictions: What was predicted, by step.
    """
    arms = [arm for arm in arms_of(study) if (table["arm"] == arm.name).any()]
    steps, found = study.evaluation.steps, []
    for arm in arms:
        about = {"arm": arm.name, "budget": arm.training.budget}
        if arm.training.estimator in ("grpo", "vanilla"):
            found += [
                about
                | {"step": step}
                | judge_step(
                    curve_of(table, arm.name, step),
                    _predicted_for(arm, predictions, step),
                    study,
                )
                for step in steps
            ]
    gains = {arm.name: _gains(table, arm, steps[-1], study.level) for arm in arms[1:]}
    held_out = {arm.name: _held_out(table, arm, steps[-1]) for arm in arms}
    return {
        "tests": TESTS,
        "false_factor": FALSE,
        "steps": found,
        "best_eta": judge_best_eta(study, table, predictions[steps[-1]]),
        "gains": gains,
        "held_out": held_out,
    }
