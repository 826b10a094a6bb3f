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
round, and the median is given with the smallest and the largest (`turns.py`). A run is
timed whole. The loops would take hours, but their cost is a sum of equal pieces, so some
are timed and multiplied: a batch of `generate`, 64 completions of the reference, one
replicate at each group size. The tables are printed; the full ones replace those in
`results/speed` with `--write`.
"""

import argparse
import csv
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
from benchmarks.turns import Ratio, piece, ratio, seconds, take_turns
from models import draw
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import load_reward, reward_completions
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import uniforms
from mse_lab.run.finish import describe_environment
from mse_lab.scores.reference import measure_reference
from mse_lab.scores.score_block import score_block

ROUNDS = 5

# In float32 the ways differ by some 1e-6 to 1e-5 of the largest.
TOLERANCE = 1e-4

# Scoring is to take at most so many plain passes, the obvious loop at least so many runs.
ABOVE_PLAIN, OF_TINY, OF_OTHERS = 1.5, 12, 8


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


def table(rows: Sequence[Row]) -> str:
    """Write a table in Markdown."""
    lines = [
        f"| {' | '.join(map(str, line))} |" for line in (rows[0], *map(Row.values, rows))
    ]
    return "\n".join([lines[0], "|---|" + "--:|" * (len(rows[0]) - 1), *lines[1:]])


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Write a CSV file: a ratio is its median, and its least and largest in two more."""
    flat = [
        {
            f"{head}{end}": number
            for head, cell in row.items()
            for end, number in (
                zip(("", "_low", "_high"), cell, strict=True)
                if isinstance(cell, Ratio)
                else [("", cell)]
            )
        }
        for row in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, flat[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)


def target(says: str, missed: Sequence[str]) -> str:
    """Say whether a target is met."""
    return f"Target, {says}: {'missed by ' + '; '.join(missed) if missed else 'met'}."


def measured(cases: Sequence[Case], measure: Callable[[Case], Any]) -> list[Any]:
    """Measure one case after the other, and print each."""
    found = []
    for case in cases:
        found.append((case, measure(case)))
        print(*case.names, "measured", file=sys.stderr, flush=True)
    return found


Report = tuple[list[Row], str]  # A table, and whether its target is met.


def report_scoring(cases: Sequence[Case], folder: Path) -> Report:
    """Tabulate the scoring of blocks."""
    found = measured(cases, lambda one: score(one, folder))
    rows = [
        {**one.named, "completions": one.completions, "plain_pass": ratio}
        for one, ratio in found
    ]
    slow = [", ".join(one.names) for one, ratio in found if ratio.median > ABOVE_PLAIN]
    return rows, target(f"at most {ABOVE_PLAIN}", slow)


def report_runs(cases: Sequence[Case], folder: Path) -> Report:
    """Tabulate whole runs."""
    found = measured(cases, lambda one: race(one, folder))
    rows = [{**one.named, **ratios._asdict()} for one, ratios in found]
    least = {True: OF_OTHERS, False: OF_TINY}
    slow = [
        ", ".join(one.names)
        for one, ratios in found
        if ratios.obvious.median < least[one.size is not None]
    ]
    says = f"obvious loop at least {OF_OTHERS} times, {OF_TINY} on the tiny model"
    return rows, target(says, slow)


SECTIONS = {
    "runs": ("Whole runs", report_runs),
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
            rows, met = report((QUICK if asked.quick else FULL)[name], Path(folder))
            head = f"**{title}, ratios of times: median (smallest to largest)**"
            print(head, table(rows), met, sep="\n\n", flush=True)
            if asked.write:
                write_table(rows, ROOT / f"results/speed/{name}.csv")


if __name__ == "__main__":
    main()
