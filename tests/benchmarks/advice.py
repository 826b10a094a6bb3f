"""The answer in as few completions as it needs, beside the committed runs.

    PYTHONPATH=tests python -m benchmarks.advice tiny/base --seeds 0 5

Each seed draws its own prompts' order and completions. What is asked of each: completions
over those of the committed run; whether the recommended size is in the range that the
committed run has near the best; what it costs more than the best size by the law of the
committed run; and processor seconds from the loaded model to the answer, one thread.
"""

import argparse
import io
import json
import tempfile
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.cases import ROOT
from benchmarks.markdown import table
from mse_lab.mse.regret import COMPARED
from mse_lab.mse.verdict import decide
from mse_lab.probe.probe_files import load_probe, probe_file
from mse_lab.run.advise import LARGEST_BLOCK, sample_context
from mse_lab.run.prepare import load, prepare

# Completions of a committed run of 60 prompts; of worked/base, of 40 prompts, 51,200.
COMMITTED = 76_800


class Committed(NamedTuple):
    """What a committed run says: its range near the best size, and c1, c2 and c3."""

    near_best: tuple[int, int]
    c1: float
    c2: float
    c3: float

    def cost(self, size: int) -> float:
        """N x MSE of GRPO-type."""
        return self.c1 * size + self.c2 + self.c3 / (size - 1)

    def regret(self, size: int) -> float:
        """How much more than the best size it costs."""
        return self.cost(size) / min(map(self.cost, COMPARED)) - 1


class Answer(NamedTuple):
    """One advice: completions, why it stopped, the size, and processor seconds."""

    completions: int
    stopped: str
    size: int
    seconds: float


def committed(name: str) -> Committed:
    """Read the advice of a committed run."""
    told = json.loads((ROOT / "results" / name / "advice.json").read_text())
    first, last = told["near_best"]
    return Committed((first, last), *(told[key]["value"] for key in ("c1", "c2", "c3")))


def answer(name: str, seed: int, folder: Path) -> Answer:
    """Measure a probe until its answer is known."""
    probe = load_probe(probe_file(name, ROOT), [f"seed={seed}"])
    context = load(prepare(name, probe, folder / str(seed), ROOT), LARGEST_BLOCK)
    began = time.process_time()
    with redirect_stderr(io.StringIO()):
        found = sample_context(context, decide, None)
    seconds = time.process_time() - began
    assert found.decision is not None
    return Answer(found.look.drawn, found.stopped, found.decision.choice.size, seconds)


def report(name: str, seeds: range, folder: Path) -> str:
    """Tabulate the answers of some seeds."""
    truth, rows = committed(name), []
    for seed in seeds:
        one = answer(name, seed, folder)
        inside = truth.near_best[0] <= one.size <= truth.near_best[1]
        share = f"1/{COMMITTED / one.completions:.0f}"
        regret = f"{truth.regret(one.size):.1%}"
        rows.append(
            [name, seed, one.completions, share, one.stopped, one.size,
             "yes" if inside else "no", regret, f"{one.seconds:.1f}"]
        )  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    head = ["probe", "seed", "completions", "of the run's", "stopped by", "size",
            "near best", "costs more", "seconds"]  # fmt: skip
    return table(head, rows)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 5], metavar="N")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print(report(asked.probe, range(*asked.seeds), Path(folder)))


if __name__ == "__main__":
    main()
