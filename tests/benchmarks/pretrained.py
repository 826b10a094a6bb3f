"""Where does the time of an advice on a pretrained model go?

    python tests/benchmarks/pretrained.py [PROBE] [--set KEY=VALUE] [--prompts N] [--long]

A block of completions of each of the first prompts of a probe is drawn and scored as an
advice does it: one pass that gives log-probabilities, the Gram matrix and a sketch of the
prompt's gradient. Printed are processor seconds of loading, the shares of a block's steps,
and its time beside `generate` and beside a plain forward and backward pass of the same
distinct rows. All take turns in one process, so ratios of one run compare where seconds do
not. `--long` scores a random model of 25M parameters behind 500 prompt tokens instead. Set
OMP_NUM_THREADS=1 for one thread, and PYTHONPATH to measure another checkout.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import truediv
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

sys.path += map(str, Path(__file__).resolve().parents[1:3])

from models import write_numbers
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.streams import uniforms
from mse_lab.scores import recorder
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.score_block import score_block
from mse_lab.scores.sketches import Sketch

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("draw", "forward", "input gradients", "Gram", "sketch")


class Clock:
    """Processor seconds by step; a step inside another is not counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = time.process_time()

    def _turn(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the time inside the block as this step's."""
        self._turn()
        self._running.append(name)
        try:
            yield
        finally:
            self._turn()
            self._running.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give a function whose calls are this step."""

        def call(*given: Any, **named: Any) -> Any:
            with self.step(name):
                return function(*given, **named)

        return call


def score(policy: Policy, prompt: list[int], block: Completions, clock: Clock) -> None:
    """Score a block as an advice does, its steps by the clock."""
    keeper, weights_N = Sketch(policy.parameters, 0), np.linspace(-1, 1, len(block))
    backward, reduced = Tensor.backward, recorder.reduce_factors
    with (
        mock.patch.object(keeper, "add", clock.timed("sketch", keeper.add)),
        mock.patch.object(Tensor, "backward", clock.timed("input gradients", backward)),
        mock.patch.object(recorder, "reduce_factors", clock.timed("Gram", reduced)),
        clock.step("forward"),
    ):
        score_block(policy, prompt, block, None, weighted=Weighted(weights_N, keeper))


def plain_pass(policy: Policy, prompt: list[int], block: Completions) -> None:
    """Run the distinct completions forward and backward in one batch."""
    with torch.enable_grad(), policy.differentiable():
        sequence_log_probs(policy, prompt, block.distinct()[0]).sum().backward()
    for parameter in policy.parameters.values():
        parameter.grad = None


def generate(policy: Policy, prompt: list[int], count: int, positions: int) -> None:
    """Draw as transformers does."""
    given = torch.tensor([prompt] * count)
    settings = {"do_sample": True, "top_k": 0, "pad_token_id": 0}
    policy.model.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=positions,
        eos_token_id=[*policy.end_tokens] or None,
        **settings,
    )


def measure_block(policy: Policy, prompt: list[int], numbers_NT: Any, name: str) -> Clock:
    """Draw and score a block of one prompt, and do what it is compared with."""
    clock, (count, positions) = Clock(), numbers_NT.shape
    with clock.step("draw"):
        block = draw(policy, prompt, numbers_NT, name)
    score(policy, prompt, block, clock)
    with clock.step("plain"):
        plain_pass(policy, prompt, block)
    with clock.step("generate"):
        generate(policy, prompt, count, positions)
    clock.seconds["distinct"] = len(block.distinct()[0])
    return clock


def show(name: str, values: list[float]) -> None:
    """Print a ratio's median, smallest and largest."""
    print(f"  {name:18} {median(values):.2f} ({min(values):.2f} to {max(values):.2f})")


def pretrained(name: str, assignments: list[str], prompts: int, count: int) -> None:
    """Print what a block of a probe's prompts takes."""
    loading = Clock()
    with loading.step("load"):
        probe = load_probe(ROOT / f"probes/{name}.yaml", assignments)
        policy = load_policy(probe, ROOT)
    rows, positions = load_prompts(probe.prompts, ROOT), probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, rows, chat=probe.prompts.chat, new_tokens=positions)
    # The first one makes the plan of scoring, and is not counted.
    blocks = [
        measure_block(
            policy,
            tokens[index],
            uniforms(probe.seed, rows[index].id, "advice", range(count), positions),
            rows[index].id,
        ).seconds
        for index in range(prompts + 1)
    ][1:]
    steps = {step: sum(one[step] for one in blocks) / prompts for step in STEPS}
    whole = sum(steps.values())
    print(f"{name}: load {loading.seconds['load']:.1f} s, a block of {count} {whole:.2f} s")
    passes = sum(one["plain"] for one in blocks) / prompts
    for step, seconds in steps.items():
        print(f"  {step:18} {seconds / whole:4.0%}, {seconds / passes:.2f} plain passes")
    scored = [sum(one[step] for step in STEPS[1:]) for one in blocks]
    plain, generated = ([one[key] for one in blocks] for key in ("plain", "generate"))
    drawn, distinct = ([one[key] for one in blocks] for key in ("draw", "distinct"))
    show("score / plain pass", [*map(truediv, scored, plain)])
    show("draw / generate", [*map(truediv, drawn, generated)])
    show("distinct", distinct)


def long_prompts(rounds: int, layers: int) -> None:
    """Print what scoring 16 completions of 64 tokens behind 500 takes."""
    with TemporaryDirectory() as folder:
        path = write_numbers(Path(folder), "25M", 1_000, 512, 1408, layers, 8)
        probe = load_probe(ROOT / "probes/tiny/base.yaml", [f"model.path={path}"])
        policy = load_policy(probe, ROOT)
    rng = np.random.default_rng(0)
    prompt, tokens_NT = rng.integers(1_000, size=500), rng.integers(1_000, size=(16, 64))
    ended_N = np.zeros(16, np.bool_)
    block = Completions(tokens_NT, np.full(16, 64), np.zeros(16), ended_N)
    ratios, largest = [], 0
    for _ in range(rounds):
        clock = Clock()
        with clock.step("score"):
            score_block(policy, prompt.tolist(), block, None)
        largest = largest or getrusage(RUSAGE_SELF).ru_maxrss
        with clock.step("plain"):
            plain_pass(policy, prompt.tolist(), block)
        ratios.append(clock.seconds["score"] / clock.seconds["plain"])
    print(f"500 + 64, {layers} layers: scored in {largest / 2**20:.2f} GiB")
    show("score / plain pass", ratios)


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("probe", nargs="?", default="smollm2/icl")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--completions", type=int, default=8)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--layers", type=int, default=8, help="of the long prompts' model")
    given = parser.parse_args()
    if given.long:
        long_prompts(3, given.layers)
    else:
        pretrained(given.probe, given.set, given.prompts, given.completions)


if __name__ == "__main__":
    main()
