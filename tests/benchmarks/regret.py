"""How often the advice's sentences are true: `regret.py [RUNS [REFERENCE]]`.

Prompts are drawn from populations of 4000 whose constants are known, 200 runs of each: the
choice of a group size and what is said of it, where anything is, and the intervals that
stand beside it. Some ten minutes on an idle core.
"""

import math
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.truths import Truth
from designs import scaled, with_values
from mse_lab.arrays import divide
from mse_lab.mse.budget import Population, mse_times_budget
from mse_lab.mse.regret import LARGE, percent_up, recommend, regret_bounds
from populations import POPULATION, choose, population, tilt, with_gradient

RUNS, REFERENCE, PROMPTS, LEVEL = 200, 256, (12, 30, 60, 120), 0.95
SIZES = np.arange(2, 257)


def bimodal(rng):
    """Half of the prompts are hard and half are easy; their gradients share a part."""
    value_P = np.where(
        rng.random(POPULATION) < 0.5,
        rng.uniform(0.02, 0.1, POPULATION),
        rng.uniform(0.9, 0.98, POPULATION),
    )
    common = np.zeros((POPULATION, 6))
    common[:, 0] = 1
    return tilt(with_values(rng, value_P), common)


def drawn_together(design, share):
    """Shrink what tells the prompts' gradients apart to this share."""
    design = choose(design, design.moments().variance > 0.05)
    gradient_PD = design.gradient_PD
    mean = gradient_PD.mean(0)
    return with_gradient(design, mean + share * (gradient_PD - mean))


def log_normal(rng):
    return np.exp(0.8 * rng.standard_normal(POPULATION))


# The length of the step, in units of the population's scores, that gives a rare prompt a
# gradient of its own.
OWN = 10.0


def with_rare(one_in: int, size: float):
    """Give one prompt in so many larger scores, and a gradient of its own: they carry c1.

    c1 grows by more than c3, so the best size is another one than that of the rest.
    """
    rng = np.random.default_rng(11)
    plain = population(np.random.default_rng(1))
    rare_P = rng.random(POPULATION) < 1 / one_in
    step_PD = rng.standard_normal((POPULATION, plain.score_PCD.shape[-1]))
    step_PD *= OWN * rare_P[:, None] / np.linalg.norm(step_PD, axis=1, keepdims=True)
    return scaled(tilt(plain, step_PD), np.where(rare_P, size, 1.0))


def _make():
    stream = np.random.default_rng
    plain, mixed = population(stream(1)), bimodal(stream(3))
    return {
        "scores e^(0.8 N)": scaled(plain, log_normal(stream(2))),
        "half easy, half hard": mixed,
        "both": scaled(mixed, log_normal(stream(5))),
        "little tells gradients apart": drawn_together(plain, 0.15),
        "nothing does (c1 = 0)": drawn_together(plain, 0.0),
    }


DESIGNS = _make()

# Prompts, and how rare the kind is that carries c1: one in P/6, and one in P/3.
RARE = tuple((prompts, prompts // part) for part in (6, 3) for prompts in (30, 60, 120))


def cost_of(name, size, over):
    """Make the figure: completions of one estimator over those of GRPO-type at a size."""

    def figure(one):
        return divide(
            mse_times_budget(name, one, size), mse_times_budget("grpo", one, over)
        )

    return figure


class Told(NamedTuple):
    """What one run says: a size, its true regret, and which sentences are true."""

    size: int
    regret: float
    bound: float
    true: dict[str, float]  # Unknown where no bound is said.


def _if(said, true):
    """Give a truth; unknown where nothing is said."""
    return float(true) if said else math.nan


def tell(design, known, prompts, reference, rng):
    """Draw a run, and hold what it says against the constants of the population."""
    index = rng.integers(0, design.prompts, prompts)
    drawn = Population(choose(design, index).draw(rng, reference, 2, 16))
    choice = recommend(drawn, regret_bounds(drawn, LEVEL))
    cost = mse_times_budget("grpo", known, SIZES)
    regret = dict(zip(SIZES.tolist(), cost / cost.min() - 1, strict=True))
    ends = max(regret[size] for size in choice.near_best)

    def holds(figure):
        _, low, high = drawn.estimate_positive(figure, LEVEL)
        return low <= figure(known).item() <= high

    best = drawn.best_group_size(LEVEL)
    with np.errstate(divide="ignore"):
        exact = 1 + np.sqrt(known.c3 / known.c1).item()
    said = choice.regret <= LARGE
    true = {
        "said": said,
        "at most x% more": _if(said, regret[choice.size] <= percent_up(choice.regret)),
        "the range": _if(said, ends <= choice.near_regret),
        "G*": best.low <= exact <= best.high,
        "cost of another G": holds(
            cost_of("grpo", 16 if choice.size != 16 else 8, choice.size)
        ),
        "vanilla's cost": holds(cost_of("vanilla", 1, choice.size)),
    }
    return Told(choice.size, regret[choice.size], choice.regret, true)


def print_row(label, design, prompts, runs, reference):
    """Print a row: what is recommended, its regret, how often each sentence is true."""
    known, rng = Truth(design).constants, np.random.default_rng(prompts)
    told = [tell(design, known, prompts, reference, rng) for _ in range(runs)]
    regrets = np.array([one.regret for one in told])
    size, count = Counter(one.size for one in told).most_common(1)[0]
    true = [[*one.true.values()] for one in told]
    best = SIZES[np.argmin(mse_times_budget("grpo", known, SIZES))]
    cells = [
        label,
        str(best),
        f"{size} ({count / runs:.0%})",
        f"{regrets.mean():.1%} ({np.quantile(regrets, 0.95):.1%})",
        f"{np.median([one.bound for one in told]):.0%}",
        *(f"{100 * share:.1f}" for share in np.nanmean(true, axis=0)),
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure all designs."""
    given = [int(word) for word in sys.argv[1:]]
    size = (*given, *(RUNS, REFERENCE)[len(given) :])
    print("| prompts | best G | told (in) | its regret | x | said | true in percent ... |")
    for name in DESIGNS:
        for prompts in PROMPTS:
            print_row(f"{name}, {prompts} prompts", DESIGNS[name], prompts, *size)
    for prompts, one_in in RARE:
        label = f"1 in {one_in}, scores x3, {prompts} prompts"
        print_row(label, with_rare(one_in, 3.0), prompts, *size)


if __name__ == "__main__":
    main()
