"""How often intervals of corrections hold: `-m benchmarks.correction_levels RUNS SPREAD`.

Engines of two tokens of two words; prompts are drawn from a list of 2,000, over which the
truth is exact. Counted are intervals that are told, and verdicts: the correction that is
named as closest, and that none is needed.
"""

import sys
from collections import Counter

import numpy as np

from mse_lab.answers.mismatch import SMALL, judge_mismatch
from mse_lab.mse.corrections import EXACT, NAMES, NONE, Judged
from simulated_engine import engines, pools_of

SIZE, GROUPS = 4, 64
LISTED, PROMPTS = 2000, 40
FIGURES = {
    "kept": "kept", "bias2": "bias2", "variance": "noise", "scale_free_mse": "scale_free"
}  # fmt: skip


def truth_of(listed):
    """Each correction over the population, which is the listed prompts."""
    means = [np.array([one.mean_of(at) for one in listed]) for at in range(len(NAMES))]
    g = means[EXACT].mean(0)
    found = []
    for at, mean in enumerate(means):
        h = mean.mean(0)
        second = np.mean([one.second_moment(at, SIZE) for one in listed])
        noise = (second - h @ h) / GROUPS
        cosine2 = (h @ g) ** 2 / (h @ h) / (g @ g)
        found.append(Judged(*map(np.atleast_1d, (h @ h, h @ g, g @ g, noise, cosine2))))
    return found


def held(truth, mismatch):
    """Which intervals that are told hold, and which verdicts are true."""
    errors = np.array([one.scale_free[0] for one in truth])
    for at, row in enumerate(mismatch.rows):
        truths = {name: getattr(truth[at], own)[0] for name, own in FIGURES.items()}
        truths["difference"] = errors[at] - errors[NONE]
        for name, exact in truths.items():
            _, low, high = getattr(row, name)
            if np.isfinite(low) and (at, name) != (NONE, "difference"):
                yield (row.correction, name), low - 1e-9 <= exact <= high + 1e-9
    none = truth[NONE]
    if not mismatch.needed:
        bias_small = (1 - SMALL) * none.distance2[0] <= SMALL * none.variance[0]
        yield ("verdict", "none is needed"), bias_small
    if mismatch.best is not None:
        own = errors[NAMES.index(mismatch.best)]
        yield ("verdict", "better than none"), own < errors[NONE]
        usable = [at for at in range(len(NAMES)) if at not in (NONE, EXACT)]
        yield ("verdict", "closest of all"), own <= errors[usable].min()


def main(runs, spread):
    """Print how often each interval was told, and held, for engines so far off."""
    rng, counts = np.random.default_rng(0), Counter()
    listed = engines(rng, LISTED, spread)
    truth = truth_of(listed)
    for run in range(runs):
        drawn = [listed[at] for at in rng.integers(0, LISTED, PROMPTS)]
        pools = pools_of(rng, drawn, 64)
        counts.update(held(truth, judge_mismatch(pools, SIZE, SIZE * GROUPS, 0.95)))
        if run % 20 == 19:
            print(run + 1, "runs", flush=True)
    for key in dict.fromkeys(key for key, _ in counts):
        told = counts[key, True] + counts[key, False]
        print(*key, f"told {told}, held {counts[key, True] / told:.1%}", sep=" | ")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
