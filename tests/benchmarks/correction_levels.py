"""How often intervals of corrections hold: `-m benchmarks.correction_levels RUNS SPREAD`.

Engines of two tokens of two words, prompts drawn at random; the truth is over many prompts.
"""

import sys
from collections import Counter

import numpy as np

from mse_lab.mse.corrections import EXACT, NAMES, NONE, CorrectionPopulation, Judged
from simulated_engine import engines, pools_of

PLACES = [NAMES.index(name) for name in ("none", "TRL sequence_mask", "TRL token_truncate")]
SIZE, GROUPS, LISTED = 4, 64, 3000
FIGURES = ("kept", "bias2", "noise", "scale_free")


def truth_of(rng, spread):
    """Each correction over the population."""
    listed = engines(rng, LISTED, spread)
    means = {at: np.array([one.mean_of(at) for one in listed]) for at in (*PLACES, EXACT)}
    g = means[EXACT].mean(0)
    found = {}
    for at in PLACES:
        h = means[at].mean(0)
        second = np.mean([one.second_moment(at, SIZE) for one in listed])
        noise = (second - h @ h) / GROUPS
        cosine2 = (h @ g) ** 2 / (h @ h) / (g @ g)
        found[at] = Judged(*map(np.atleast_1d, (h @ h, h @ g, g @ g, noise, cosine2)))
    return found


def held(truth, population):
    """Which intervals hold."""
    judged = {at: population.judge(at, SIZE, GROUPS) for at in PLACES}
    for at, one in judged.items():
        for name in FIGURES:
            estimate = population.estimate(
                getattr(one, name), 0.95, positive=name == "noise"
            )
            yield (at, name), holds(estimate, getattr(truth[at], name)[0])
        estimate = population.estimate(one.scale_free - judged[NONE].scale_free, 0.95)
        apart = truth[at].scale_free[0] - truth[NONE].scale_free[0]
        if at != NONE:
            yield (at, "difference"), holds(estimate, apart)


def holds(estimate, truth):
    """Whether it does; a mask that nothing exceeds is without bias but for rounding."""
    return estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


def main(runs, spread):
    """Print the shares of intervals that held, for engines so far off."""
    rng, counts = np.random.default_rng(0), Counter()
    truth = truth_of(rng, spread)
    for run in range(runs):
        population = CorrectionPopulation(pools_of(rng, engines(rng, 40, spread), 64))
        counts.update(held(truth, population))
        if run % 20 == 19:
            print(run + 1, shares(counts, run + 1), flush=True)


def shares(counts, runs):
    """By correction and figure."""
    return {f"{NAMES[at]}: {name}": counts[(at, name), True] / runs
            for at, name in sorted({key for key, _ in counts})}  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
