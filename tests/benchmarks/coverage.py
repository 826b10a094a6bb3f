"""How often 95% intervals cover the truth: `python tests/benchmarks/coverage.py [RUNS]`.

Simulated prompts of known laws, like and unlike one another (`tests/designs.py`), 400 runs
of each design, and in how many of them Theorem 2, which is true, is said to fail; then the
best group size over prompts drawn at random. Some twenty minutes.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answers import test_advice
from designs import DESIGNS, cover, refuse

RUNS = 400


def percent(count, runs):
    """Write a share."""
    return f"{100 * count / runs:5.1f}"


def show_design(name, runs):
    """Print the mean coverage by kind and group size, and the least of any estimator."""
    made = DESIGNS[name]
    counts = cover(made, runs)
    cells = []
    for kind in ("mse", "law", "ratio"):
        found = [one for (of, _), one in counts.items() if of == kind]
        shares = [one.covered / one.runs for one in found]
        cells.append(f"{100 * np.mean(shares):5.1f} ({100 * min(shares):5.1f})")
    either = [one.either / one.runs for one in counts.values()]
    few = next(iter(counts.values())).few
    false = refuse(made, runs) if "grpo" in made.estimators else None
    verdict = "" if false is None else percent(false, runs)
    mark = "extreme" if made.extreme else ""
    row = [
        f"{name:<30}",
        *cells,
        percent(few, runs),
        f"{100 * min(either):5.1f}",
        verdict,
        mark,
    ]
    print(" | ".join(row), flush=True)


def main() -> None:
    """Measure all designs."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(
        "coverage in percent, mean over estimators and G = 4, 16, 64 (least of one); runs"
    )
    print("told of few degrees; least coverage or told; Theorem 2 refused at 5%")
    for name in DESIGNS:
        show_design(name, runs)
    for prompts, scale in ((8, 0.8), (20, 0.8), (60, 0.8), (60, 0.0)):
        count = test_advice.covered(runs, prompts, scale)["best"]
        print(f"G* over {prompts} prompts, scales e^({scale} N): {percent(count, runs)}")


if __name__ == "__main__":
    main()
