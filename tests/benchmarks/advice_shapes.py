"""An advice measured whole at the shapes of real models, with random weights.

    PYTHONPATH=tests OMP_NUM_THREADS=2 python -m benchmarks.advice_shapes 0.5B

Until the answer stands: completions, seconds, processor seconds, and the most memory that
the process held; and the processor seconds over the floor, one plain batched forward and
backward pass of the same number of completions, of which a prompt's are timed in the end.
A random model says nothing of a trained one's best size; what a prompt costs is the same.
"""

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import tool
from benchmarks.cases import MEDIUM, ROOT, Case, Size, write_probe
from benchmarks.loops import plain_pass
from benchmarks.tables import table
from mse_lab.measurement.looks import FIRST_COMPLETIONS
from mse_lab.mse.verdict import decide
from mse_lab.probe.probe_files import load_probe
from mse_lab.run.advise import LARGEST_BLOCK, sample_context
from mse_lab.run.finish import peak_memory_bytes
from mse_lab.run.prepare import RunContext, load, prepare

# Qwen2.5-0.5B's configuration on short answers; a small model on long ones.
CASES = {
    "0.5B": Case(Size("0.5B", 151_936, 896, 4864, 24, 14, keys=2), 60, 8),
    "25M": Case(MEDIUM, 60, 500),
    "4M": Case(Size("4M", 1_000, 192, 512, 9, 6), 60, 8),
}
PROMPTS = 36


def floor(case: Case, context: RunContext) -> float:
    """Processor seconds of a plain pass through one prompt's completions."""
    subject = context.subject
    prompts = list(subject.prompts)
    loaded = tool.Loaded(case, subject.probe, subject.policy, prompts, subject.tokens)
    work = tool.work(loaded, 0, tool.sample(loaded, 0, "floor", FIRST_COMPLETIONS), {})
    began = time.process_time()
    plain_pass(work)
    return time.process_time() - began


def main() -> None:
    """Print a table of one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=CASES)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--budget", type=int)
    asked = parser.parse_args()
    case = CASES[asked.shape]
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        probe = load_probe(write_probe(case, folder, prompts=asked.prompts))
        context = load(prepare(asked.shape, probe, folder / "out", ROOT), LARGEST_BLOCK)
        wall, processor = time.perf_counter(), time.process_time()
        found = sample_context(context, partial(decide), asked.budget)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        peak, load_average = peak_memory_bytes(), os.getloadavg()[0]
        ratio = processor / (found.look.drawn / FIRST_COMPLETIONS * floor(case, context))
        parameters = context.subject.policy.size
    head = ["parameters", "prompt + completion", "prompts", "completions", "differentiated",
            "stopped by", "seconds", "processor seconds", "over the floor", "peak GB",
            "load"]  # fmt: skip
    row = [f"{parameters:,}", case.shape, found.look.prompts, found.look.drawn,
           found.differentiated, found.stopped, f"{wall:.0f}", f"{processor:.0f}",
           f"{ratio:.2f}", f"{peak / 1e9:.1f}", f"{load_average:.0f}"]  # fmt: skip
    print(table(head, [row]))


if __name__ == "__main__":
    main()
