"""How often what is said of a training study is wrong, in percent.

`python tests/benchmarks/training_levels.py [RUNS]` simulates studies with the seeds'
covariance of the committed one, 400 of each design; some minutes. Their true means follow a
link of J to the path's N MSE that is fitted to the committed means, so the best group size
is known: linear, logistic, exponential, power; flat, all means being equal; and edge, where
the size that is judged loses exactly what is tolerated. A verdict is wrong where it holds
though the loss is not smaller, or no size's is larger, or fails though it is not larger.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize

from mse_lab.studies.training.best_sizes import Curve, judge_size, regrets
from mse_lab.studies.training.files import FORMER, StudyFiles
from mse_lab.studies.training.predicted_group_size import predict_at
from mse_lab.studies.training.settings import arms_of, arms_that_differ_in, load_study
from mse_lab.studies.training.verdict import curve_of, mean_interval

ROOT = Path(__file__).resolve().parents[2]
RUNS, LEVEL, TOLERANCE = 400, 0.95, 0.02

CONSTANTS = ["c1", "c2", "c3"]

LINKS = {
    "linear": lambda x, a, b: a - b * x,
    "logistic": lambda x, a, b: 1 / (1 + np.exp(b * x - a)),
    "exponential": lambda x, a, b: a * np.exp(-b * x),
    "power": lambda x, a, b: a * x**-b,
}

# Arm, which prompts; its own covariance and number of seeds.
NOISES = [
    ("main", "training"),
    ("main", "held-out"),
    ("budget-64", "training"),
    ("small-step", "training"),
    ("eta-0.06", "training"),
    ("eta-0.06", "held-out"),
]


class Found(NamedTuple):
    """What was wrong in one simulated study; of means, the share that missed."""

    set_lost_the_best: bool
    loss_missed: bool
    wrong: bool
    means_missed: float


def fit(link, path_mse, means):
    """Give the means of a link fitted to measured ones."""
    relative = path_mse / path_mse.min()
    first = (2.0, 0.5) if link == "logistic" else (means.max(), 0.1)
    found = optimize.curve_fit(LINKS[link], relative, means, p0=first, maxfev=10_000)[0]
    return LINKS[link](relative, *found)


def designs(curve, path_mse):
    """Name the true means of each design."""
    found = {link: fit(link, path_mse, curve.means) for link in LINKS}
    found["flat"] = np.full(len(curve.sizes), curve.means.mean())
    edge = np.sort(curve.means)[::-1].copy()
    edge[[0, 1]] = edge[0] - TOLERANCE, edge[0]
    return found | {"edge": edge}


def judge(curve, true, place):
    """Judge a simulated study, and compare it with the truth."""
    found, loss = regrets(curve, LEVEL), max(0.0, (true - true[place]).max())
    verdict = judge_size(found[place], found, TOLERANCE)
    none_larger = true.max() - true.min() <= TOLERANCE
    false_holds = loss >= TOLERANCE or none_larger
    wrong = {"holds": false_holds, "fails": loss <= TOLERANCE}.get(verdict, False)
    intervals = np.array([mean_interval(one, LEVEL) for one in curve.values_SG.T])
    return Found(
        not found[np.argmax(true)].in_set,
        not found[place].low <= loss + 1e-12 <= found[place].high + 2e-12,
        wrong,
        np.mean((intervals[:, 1] > true) | (intervals[:, 2] < true)),
    )


def show(name, found):
    """Print shares in percent."""
    shares = " | ".join(f"{100 * one:4.1f}" for one in np.mean(found, axis=0))
    print(f"{name:<46} | {shares}", flush=True)


def redraw(rng, values):
    """Draw normal numbers with the seeds' mean and covariance; seeds are the first axis."""
    seeds, mean = len(values), values.mean(0)
    mixing = rng.standard_normal((seeds, seeds)) / np.sqrt(seeds - 1)
    return mean + np.tensordot(mixing, values - mean, 1)


def simulate(curve, path_mse, place, runs, name):
    """Judge simulated studies of every design."""
    rng, sizes = np.random.default_rng(0), curve.sizes
    for design, true in designs(curve, path_mse).items():
        at, shift = 0 if design == "edge" else place, true - curve.means
        drawn = (redraw(rng, curve.values_SG) + shift for _ in range(runs))
        found = [judge(Curve(sizes, values_SG), true, at) for values_SG in drawn]
        show(f"{name}, {design}", found)


def simulate_best_eta(study, table, predicted, prompts, runs):
    """The best of four step sizes, chosen by the runs that are judged."""
    arms = arms_that_differ_in(study, "eta")
    curves = [curve_of(table, arm.name, study.steps, prompts) for arm in arms]
    seeds = min(len(one.values_SG) for one in curves)
    values_SEG = np.stack([one.values_SG[:seeds] for one in curves], 1)
    true, rng, found = values_SEG.mean(0).max(0), np.random.default_rng(0), []
    place = curves[0].nearest(predicted.best)
    for _ in range(runs):
        drawn_SEG = redraw(rng, values_SEG)
        best_G = drawn_SEG.mean(0).argmax(0)
        values = drawn_SEG[:, best_G, np.arange(len(best_G))]
        found.append(judge(Curve(curves[0].sizes, values), true, place))
    show(f"best of {len(arms)} eta, {prompts}, {seeds} seeds", found)


def cover_prediction(pilots, runs):
    """How often the interval of the predicted G* misses, the pilots' seeds being normal."""
    means = np.array(
        [seed[seed["step"] > 0][CONSTANTS].mean() for _, seed in pilots.groupby("seed")]
    )
    rng, missed, seeds = np.random.default_rng(0), 0, len(means)
    true = 1 + np.sqrt(means.mean(0)[2] / means.mean(0)[0])
    for _ in range(runs):
        drawn = enumerate(redraw(rng, means))
        table = pd.DataFrame(
            [(4, seed, step, *one) for seed, one in drawn for step in (0, 1)],
            columns=["group_size", "seed", "step", *CONSTANTS],
        )
        low, high = predict_at(table, 1).interval(LEVEL)[1:]
        missed += not low <= true <= high
    print(f"predicted G*, {seeds} seeds of pilots: {100 * missed / runs:.1f}", flush=True)


def main() -> None:
    """Simulate all designs."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    study = load_study(ROOT / "probes/studies/group-size.yaml")
    files, arms = StudyFiles(ROOT / "results/group-size"), arms_of(study)
    table = pd.read_csv(files.folder / "runs.csv", dtype={"arm": str})
    predicted = files.read_prediction(arms[0]).by_step[study.steps]
    c1, c2, c3 = predicted.constants
    print("percent of simulated studies: the set lacks the best size | the loss of the")
    print("predicted size is outside its interval | the verdict is wrong | means outside")
    for arm, prompts in NOISES:
        curve = curve_of(table, arm, study.steps, prompts)
        path_mse = c1 * curve.sizes + c2 + c3 / (curve.sizes - 1)
        name = f"{arm}, {prompts}, {len(curve.values_SG)} seeds"
        simulate(curve, path_mse, curve.nearest(predicted.best), runs, name)
    for prompts in ("training", "held-out"):
        simulate_best_eta(study, table, predicted, prompts, runs)
    for name in ("group-size", "group-size-worked"):
        pilots = pd.read_csv(ROOT / "results" / name / "pilots.csv")
        cover_prediction(pilots.rename(columns=FORMER), runs)


if __name__ == "__main__":
    main()
