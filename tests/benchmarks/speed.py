"""How long does a measurement take, beside the other ways to its numbers?

    make bench                            # both tables, half an hour; QUICK=1: two minutes
    python tests/benchmarks/speed.py [--quick] [--only scoring|runs] [--write]

It needs `pip install -e '.[measure]'` and no model: random ones are written for it
(`cases.py`). Two ways to compare with (`obvious_loop.py`):

- The *plain pass*: one batched forward and backward pass over the same completions, which
  gives one gradient and no error.
- The *obvious loop*: one backward pass for each replicate, group size and estimator, of
  completions that `generate` draws anew, its gradient flattened and compared with a
  reference. *Shared completions* are drawn once, and estimators share a group's pass.

All ways are seen to give the same numbers before they are timed. Times are taken in turn in
one process, every other round backwards, for a machine drifts; ratios are formed inside a
round, and the median is given with the smallest and the largest. A run is timed whole. The
loops would take hours, but their cost is a sum of equal pieces, so some are timed and
multiplied: a batch of `generate`, 64 completions of the reference, one replicate at each
group size. The tables are printed; the full ones replace those in `results/speed` with
`--write`.
"""

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import run_mse
from benchmarks.cases import BLOCK, FULL, GROUP_SIZES, QUICK, ROOT, Case, Row
from benchmarks.obvious_loop import (
    ESTIMATORS,
    SAMPLED,
    Work,
    generate,
    plain_pass,
    reference,
    squared_error,
    squared_errors,
    weights_of,
)
from models import draw
from mse_lab.config.probe_files import load_probe
from mse_lab.config.schema import Probe
from mse_lab.data.prompts import Prompt, load_prompts
from mse_lab.data.rewards import load_reward, reward_completions
from mse_lab.data.streams import uniforms
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.run.finish import describe_environment
from mse_lab.scores.reference import measure_reference
from mse_lab.scores.score_block import score_block

ROUNDS = 5

# In float32 the ways differ by some 1e-6 to 1e-5 of the largest.
TOLERANCE = 1e-4

SHORTEST = 0.1  # Pieces shorter than so many seconds are timed several times over.


class Ratio(NamedTuple):
    """A ratio of times over the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 1 if self.median >= 10 else 2
        median, low, high = (f"{one:.{digits}f}" for one in self)
        return f"{median} ({low} to {high})"


def ratio(slower: Sequence[float], faster: Sequence[float]) -> Ratio:
    """Divide round by round.

    >>> print(ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]))
    2.00 (1.00 to 3.00)
    """
    ratios = [top / bottom for top, bottom in zip(slower, faster, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def seconds(work: Callable[[], object]) -> float:
    """Time a piece of work by the wall clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def piece(work: Callable[[], object]) -> float:
    """Time a piece, on average over enough calls."""
    first = seconds(work)
    calls = int(SHORTEST / first)
    return (first + sum(seconds(work) for _ in range(calls))) / (1 + calls)


def take_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Any]:
    """Let every way measure itself once a round; give name -> seconds of each round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
            times[name].append(ways[name]())
    return {name: np.array(own) for name, own in times.items()}


class Loaded:
    """A case as this tool has it; the only part that calls the tool's functions."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.path = case, case.write(folder)
        self.probe: Probe = load_probe(self.path)
        self.policy: Policy = load_policy(self.probe, ROOT)
        self.prompts: list[Prompt] = load_prompts(self.probe.prompts, ROOT)
        positions = self.probe.sampling.max_new_tokens
        self.tokens = encode_prompts(
            self.policy, self.prompts, chat=self.probe.prompts.chat, new_tokens=positions
        )

    def sample(self, index: int, pool: str, count: int) -> Completions:
        """Draw completions of a prompt."""
        prompt, positions = self.prompts[index], self.probe.sampling.max_new_tokens
        numbers = uniforms(self.probe.seed, prompt.id, pool, range(count), positions)
        return draw(self.policy, self.tokens[index], numbers, prompt.id)

    def reward(self, index: int, completions: Completions) -> np.ndarray:
        """Reward completions of a prompt, (N,)."""
        function, texts = load_reward(self.probe.reward), completions.texts(self.policy)
        return reward_completions(function, texts, self.prompts[index]).values_N

    def run(self, out: Path) -> None:
        """Carry out a whole run, its tables included; no built-in check of it may fail."""
        words = ["run", str(self.path), "--out", str(out), "--fresh"]
        with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            status = run_mse.main(words)
        checks = json.loads(next(out.glob("*/checks.json")).read_text())
        if status or not checks["ok"]:
            raise RuntimeError(f"{self.case.names}: the run failed")


class Block:
    """Completions of one prompt, scored by this tool or given to the other ways."""

    def __init__(self, loaded: Loaded, index: int = 0) -> None:
        self.loaded, self.tokens = loaded, loaded.tokens[index]
        self.drawn = loaded.sample(index, "replicate", loaded.case.completions)
        self.rewards_N = loaded.reward(index, self.drawn)
        self.rbar = measure_reference(
            loaded.policy,
            self.tokens,
            self.drawn,
            self.rewards_N,
            lambda gradient: np.zeros(0, np.float32),
        ).mean

    def products(self) -> tuple[np.ndarray, np.ndarray]:
        """Score by this tool: the Gram matrix, and products with the reference."""
        found = score_block(self.loaded.policy, self.tokens, self.drawn, self.rbar)
        return found.gram_NN, found.products_N

    @cached_property
    def work(self) -> Work:
        """The same for the other ways."""
        policy, longest = self.loaded.policy, int(self.drawn.lengths_N.max())
        return Work(
            model=policy.model,
            parameters={name: policy.parameters[name] for name in self.rbar},
            prompt=self.tokens,
            tokens_NT=torch.from_numpy(self.drawn.tokens_NT[:, :longest]),
            lengths_N=torch.from_numpy(self.drawn.lengths_N),
            rewards_N=self.rewards_N,
            reference_D=torch.cat([one.flatten() for one in self.rbar.values()]),
            temperature=policy.temperature,
        )

    def disagreement(self) -> float:
        """Compare the first replicate's errors: the largest relative difference."""
        gram_NN, products_N = self.products()
        norm2, pairs = float(self.work.reference_D.double().square().sum()), []
        for size in GROUP_SIZES[:3]:
            group = slice(0, size)
            together = squared_errors(self.work[group])
            for estimator, shared in zip(ESTIMATORS, together, strict=True):
                weights_G = weights_of(estimator, self.rewards_N[None, group])[0] / size
                quadratic = weights_G @ gram_NN[group, group] @ weights_G
                ours = quadratic - 2 * weights_G @ products_N[group] + norm2
                alone = squared_error(self.work[group], estimator)
                pairs += [(ours, shared), (ours, alone)]
        apart, scale = np.abs(np.diff(pairs)).max(), np.abs(pairs).max()
        return float(apart / scale)

    def hold(self) -> None:
        """Raise an error if the ways give different numbers: there is nothing to time."""
        if not (gap := self.disagreement()) <= TOLERANCE:
            raise RuntimeError(f"{self.loaded.case.names}: errors differ by {gap:.1e}")


def score(case: Case, folder: Path, rounds: int = ROUNDS) -> Ratio:
    """Time scoring a block over one plain pass."""
    block = Block(Loaded(case, folder))
    block.hold()
    plain_pass(block.work)
    ways = {
        "tool": partial(seconds, block.products),
        "plain": partial(seconds, partial(plain_pass, block.work)),
    }
    times = take_turns(ways, rounds)
    return ratio(times["tool"], times["plain"])


class Runs(NamedTuple):
    """Ratios of times of whole runs."""

    obvious: Ratio  # The obvious loop to this tool.
    shared: Ratio  # The loop over shared completions to this tool.
    errors: Ratio  # The obvious loop's passes for errors to this tool's scoring.
    floor: Ratio  # This tool to its sampling and a plain pass over all completions.


class Pieces:
    """The pieces that the runs of one case consist of, timed over all its prompts."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.loaded, self.out = Loaded(case, folder), folder / "out"
        indices = range(len(self.loaded.prompts))
        self.blocks = [Block(self.loaded, index) for index in indices]
        self.pool = self.loaded.probe.pool
        self.pooled = int(self.pool.reference + self.pool.replicate)

    def generated(self) -> float:
        """One completion of every prompt by `generate`, in a large batch."""
        ends, batch = list(self.loaded.policy.end_tokens), min(SAMPLED, self.pooled)
        calls = (partial(generate, one.work, batch, ends) for one in self.blocks)
        return sum(map(piece, calls)) / batch

    def passes(self, of_block: Callable[[Block], object], completions: int) -> float:
        """A piece of every block, as often as so many completions of a prompt take it."""
        calls = (partial(of_block, one) for one in self.blocks)
        return sum(map(piece, calls)) * completions / BLOCK

    def replicates(self, of_group: Callable[[Work], object]) -> float:
        """A piece of every replicate at every group size."""
        return sum(
            self.pool.replicate / size * piece(partial(of_group, one.work[:size]))
            for one in self.blocks
            for size in GROUP_SIZES
        )

    def sampled(self) -> float:
        """This tool's sampling of both pools."""
        indices = range(len(self.blocks))
        return sum(
            seconds(partial(self.loaded.sample, index, "reference", self.pooled))
            for index in indices
        )

    def ways(self) -> dict[str, Callable[[], float]]:
        """List the pieces: name -> function that gives its seconds."""
        replicate = self.pool.replicate
        return {
            "run": lambda: seconds(partial(self.loaded.run, self.out)),
            "generate": self.generated,
            "reference": lambda: self.passes(
                lambda one: reference(one.work), self.pool.reference
            ),
            # Its three estimators cost the same.
            "errors": lambda: (
                len(ESTIMATORS) * self.replicates(lambda one: squared_error(one, "grpo"))
            ),
            "shared errors": lambda: self.replicates(squared_errors),
            "scoring": lambda: self.passes(Block.products, replicate),
            "sampling": self.sampled,
            "plain": lambda: self.passes(lambda one: plain_pass(one.work), self.pooled),
        }


def race(case: Case, folder: Path, rounds: int = ROUNDS) -> Runs:
    """Time a whole run over the loops and over its floor."""
    pieces = Pieces(case, folder)
    pieces.blocks[0].hold()
    times = take_turns(pieces.ways(), rounds)
    points = len(GROUP_SIZES) * len(ESTIMATORS)
    fresh = pieces.pool.reference + points * pieces.pool.replicate
    obvious = fresh * times["generate"] + times["reference"] + times["errors"]
    shared = pieces.pooled * times["generate"] + times["reference"] + times["shared errors"]
    return Runs(
        obvious=ratio(obvious, times["run"]),
        shared=ratio(shared, times["run"]),
        errors=ratio(times["errors"], times["scoring"]),
        floor=ratio(times["run"], times["sampling"] + times["plain"]),
    )


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Write a CSV file: a ratio is its median, and its least and largest in two more."""
    flat = [dict[str, Any]() for _ in rows]
    for own, row in zip(flat, rows, strict=True):
        for head, cell in row.items():
            cells = cell if isinstance(cell, Ratio) else [cell]
            ends = ("", "_low", "_high")
            own.update((f"{head}{end}", one) for end, one in zip(ends, cells, strict=False))
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(flat).to_csv(path, index=False, lineterminator="\n")


def report_scoring(case: Case, folder: Path) -> Row:
    """Measure a row of the table of blocks."""
    plain = score(case, folder)
    return {**case.named, "completions": case.completions, "plain_pass": plain}


def report_run(case: Case, folder: Path) -> Row:
    """Measure a row of the table of whole runs."""
    return {**case.named, **race(case, folder)._asdict()}


SECTIONS = {
    "runs": ("Whole runs", report_run),
    "scoring": ("Scoring a block of N completions", report_scoring),
}


def heading(form: str) -> str:
    """Say when, on what, with which versions, and what else the machine is doing."""
    found = describe_environment(ROOT, torch.device("cpu"))
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return (
        f"{found['date']}, {found['device_model']}, commit {found['commit']}, {form}, "
        f"load at the start {os.getloadavg()[0]:.1f}, {torch.get_num_threads()} threads, "
        f"python {found['python']}, {versions}."
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few shapes, two minutes")
    parser.add_argument("--only", choices=SECTIONS, help="one of the two tables")
    parser.add_argument("--write", action="store_true", help="replace results/speed")
    asked = parser.parse_args()
    if asked.write and asked.quick:
        parser.error("--write: only tables of all shapes are kept; leave --quick out")
    return asked


def main() -> None:
    """Measure, print, write."""
    asked = parse()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    print(heading("quick form" if asked.quick else "full form"), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in [asked.only] if asked.only else SECTIONS:
            title, report = SECTIONS[name]
            rows = list[Row]()
            for case in (QUICK if asked.quick else FULL)[name]:
                rows.append(report(case, Path(folder)))
                print(*case.names, "measured", file=sys.stderr, flush=True)
            print(f"{title}, ratios of times: median (smallest to largest)", end="\n\n")
            shown = [{head: str(cell) for head, cell in row.items()} for row in rows]
            print(pd.DataFrame(shown).to_string(index=False), end="\n\n", flush=True)
            if asked.write:
                write_table(rows, ROOT / f"results/speed/{name}.csv")


if __name__ == "__main__":
    main()
