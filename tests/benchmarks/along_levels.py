"""How often what `along` says is true: `-m benchmarks.along_levels RUNS`, in `tests`.

Forty prompts are drawn from a population that moves over three checkpoints, or
stands still while its scores shrink; held against the truth are every interval of the
table, those of the whole run, and the verdicts.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from benchmarks.truths import Truth
from designs import scaled
from mse_lab.answers.along import _FACTOR as FACTOR
from mse_lab.answers.along import Along
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.regime import equal_baseline, norm_ratio
from populations import choose, population, tilt
from simulated import Design, analysed

PROMPTS, SIZE, STEPS = 40, 4, (0, 50, 100)
# Scores of one that stands still; steps of one that moves.
SCALES, PUSHES = (1.0, 0.7, 0.5), (0.0, 0.8, 1.6)


def checkpoints(moving: bool) -> list[Design]:
    """Make a population at three checkpoints."""
    rng = np.random.default_rng(3)
    design = population(rng)
    if not moving:
        return [scaled(design, np.full(design.prompts, one)) for one in SCALES]
    step_PD = rng.normal(size=(design.prompts, design.score_PCD.shape[-1]))
    return [tilt(design, push * step_PD) for push in PUSHES]


def figures(whole: Truth, own: Truth) -> dict[str, float]:
    """Compute a checkpoint's true numbers, of the population or of the run's prompts."""
    known, value = whole.constants, np.array(whole.place.value)
    mse = {
        name: own.decomposed(ESTIMATORS[name], SIZE).mse
        for name in ("vanilla", "grpo", "oracle")
    }
    return {
        "value": float(whole.moments.value.mean()),
        "best_group_size": 1 + math.sqrt(known.c3.item() / known.c1.item()),
        "vanilla": mse["vanilla"] / mse["oracle"],
        "grpo": mse["grpo"] / mse["oracle"],
        "noise_scale": whole.cost(SIZE) / known.gradient2.item(),
        "equal_rewards": whole.zero_variance(SIZE),
        "equal_rewards_law": whole.zero_variance(SIZE),
        "rho": whole.rho,
        "rho_line": float(norm_ratio(equal_baseline(value), value)),
    }


def changes(each: list[dict[str, float]], index: int) -> dict[str, float]:
    """Compute the true changes since the first checkpoint."""
    now, first = each[index], each[0]
    return {
        "value_gain": now["value"] - first["value"],
        "best_change": (now["best_group_size"] - 1) / (first["best_group_size"] - 1),
        "vanilla_change": now["vanilla"] / first["vanilla"],
        "rho_change": now["rho"] / first["rho"],
    }


def held(
    found: Along, each: list[dict[str, float]], wholes: list[Truth]
) -> Iterator[tuple[str, bool]]:
    """Say which intervals hold, and which verdicts are not false."""
    for index, row in enumerate(found.table.to_dict("records")):
        truths = each[index] | (changes(each, index) if index else {})
        for name, truth in truths.items():
            low, high = (float(row[f"{name}_{end}"]) for end in ("low", "high"))
            if not math.isnan(low + high):
                yield name, low - 1e-9 <= truth <= high + 1e-9
    sizes = np.geomspace(2, 64, 2000)
    cost_TK = np.array([[whole.cost(size) for size in sizes] for whole in wholes])
    least = cost_TK.sum(0).min()
    c1, c3 = (
        sum(getattr(one.constants, name).item() for one in wholes) for name in ("c1", "c3")
    )
    level = found.level
    whole = {
        "G* of all": (found.best, 1 + math.sqrt(c3 / c1)),
        "cost of G": (
            found.trajectory.cost(SIZE, level),
            sum(one.cost(SIZE) for one in wholes) / least,
        ),
        "saved": (
            found.trajectory.saved_by_switching(level), 1 - cost_TK.min(1).sum() / least
        ),
    }  # fmt: skip
    for name, ((_, low, high), truth) in whole.items():
        yield name, low <= truth <= high
    change = changes(each, len(each) - 1)
    ratios = [change[name] for name in ("best_change", "rho_change", "vanilla_change")]
    for claim, ratio in zip(found.claims, ratios, strict=True):
        yield (
            f"verdict: {claim.about.says}",
            claim.verdict not in false_verdicts(ratio, of_best=claim is found.claims[0]),
        )


def false_verdicts(ratio: float, *, of_best: bool) -> set[str]:
    """List the verdicts that are false of a change: G* stays, the other two fall."""
    if abs(ratio - 1) < 1e-6:
        return {"fails"} if of_best else {"holds", "fails"}
    if of_best:
        return {"holds"} if abs(math.log(ratio)) > math.log(FACTOR) else set()
    return {"fails"} if ratio < 1 else {"holds"}


def measure(moving: bool, runs: int) -> Counter:
    designs, counts = checkpoints(moving), Counter()
    wholes = [Truth(one) for one in designs]
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        index = rng.integers(0, designs[0].prompts, PROMPTS)
        own = [choose(one, index) for one in designs]
        each = [figures(*pair) for pair in zip(wholes, map(Truth, own), strict=True)]
        analyses = tuple(
            analysed(one.draw(rng, 256, 2, 16), [4, 16], name=f"{step}", resamples=400)
            for step, one in zip(STEPS, own, strict=True)
        )
        counts.update(held(Along(STEPS, analyses, SIZE), each, wholes))
    return counts


def main(runs: int) -> None:
    """Print how often each interval was told, and held."""
    for moving in (True, False):
        counts = measure(moving, runs)
        for name in dict.fromkeys(name for name, _ in counts):
            told = counts[name, True] + counts[name, False]
            share = counts[name, True] / told
            print(
                "moves" if moving else "stands", name, f"{share:.1%} of {told}", sep=" | "
            )


if __name__ == "__main__":
    main(int(sys.argv[1]))
