"""How good "to tell takes more than n prompts" is: `tests/benchmarks/forecasts.py [RUNS]`.

Runs that cannot tell after 6,496 completions (`verdicts.py`) say n. As many are drawn then,
anew, and judged once: the share that gets a verdict, and with two and four times as many.
`results/stopping/forecasts.csv` has a row for each population.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.stopping import LEVEL, LOOKS, REGRET, TABLE, percent, replace_rows
from benchmarks.verdicts import CASES_OF_VERDICTS, design_of, run_until
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.mse.samples import Samples

RUNS = 20
NAMES = ("half easy, half hard", "heavy lengths", "yours costs 6% more")
MORE = (1, 2, 4)
MOST = 2_000  # Prompts; more are not drawn.


def forecast(blocks) -> int | None:
    """How many prompts hardly tell yet, as the screen says it."""
    run = SampledRun("", Samples.of(blocks), "budget", LEVEL, REGRET)
    return run.needed and run.needed.prompts


def measure(name: str, runs: int) -> None:
    """Measure a population, and write its row."""
    design, most = design_of(name), CASES_OF_VERDICTS[name].most
    rng, forecasts, told = np.random.default_rng(0), [], {more: [] for more in MORE}
    for _ in range(runs):
        decision, blocks = run_until(design, rng, most)
        if decision.ruling.verdict != "cannot tell":
            continue
        prompts = forecast(blocks)
        forecasts.append(prompts or np.inf)
        for more, outcomes in told.items() if prompts and prompts <= MOST else ():
            looks = [(round(more * prompts), LOOKS[-1][1])]
            later, _ = run_until(design, rng, most, looks)
            outcomes.append(later.ruling.verdict != "cannot tell")
    row = {
        "design": name,
        "runs": runs,
        "cannot_tell": len(forecasts),
        "forecast": np.median(forecasts),
        "drawn": len(told[1]),
        **{f"told_{more:g}": percent(outcomes) for more, outcomes in told.items()},
    }
    print(*row.values(), sep=" | ", flush=True)
    replace_rows(TABLE.with_name("forecasts.csv"), name, [row], [*NAMES])


if __name__ == "__main__":
    for name in NAMES:
        measure(name, int(sys.argv[1]) if sys.argv[1:] else RUNS)
