"""How often 95% intervals cover the exact MSE: `python tests/benchmarks/coverage.py`.

Simulated prompts of known laws, by the code of `tests/test_intervals.py`; three minutes.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import test_advice
import test_intervals
from simulated import make_design

TRIALS = 1000


def show(title: str, blocks: int, largest: int, values: tuple[float, float], prompts: int):
    """Print the coverage of each estimator and group size on one design."""
    design = make_design(np.random.default_rng(0), prompts, values)
    covered = test_intervals.cover(blocks, largest, reference=256, design=design)
    print(title)
    for key, count in covered.items():
        print(f"  {key.estimator:<8} G = {key.group_size:<3} {100 * count / TRIALS:.1f}%")


def main() -> None:
    """Measure the designs that the README speaks of."""
    test_intervals.TRIALS = test_intervals.RESAMPLES = TRIALS
    show("60 prompts, values 0.1 to 0.9, 2 blocks of 32", 2, 32, (0.1, 0.9), 60)
    show("60 prompts, values 0.1 to 0.9, 4 blocks of 64", 4, 64, (0.1, 0.9), 60)
    show("4 prompts, values 0.02 to 0.08, 8 blocks of 16", 8, 16, (0.02, 0.08), 4)
    covered = test_advice.covered(TRIALS)["best"]
    print(f"G* over 60 prompts drawn at random  {100 * covered / TRIALS:.1f}%")


if __name__ == "__main__":
    main()
