"""Where does the time of an advice on a pretrained model go?

    python tests/benchmarks/pretrained.py [PROBE] [--set KEY=VALUE] [--batches N]

The first batches of a probe's advice are measured by the code that an advice runs: prompts
of one length are drawn together, rewarded, and the completions of each are scored in one
pass, which gives their log-probabilities, the Gram matrix and a sketch of the prompt's
gradient. Printed are processor seconds of loading, the shares of a batch's steps, and
drawing beside `generate` and scoring beside a plain forward and backward pass of the same
distinct rows. A batch's steps follow each other in one process, so ratios of one run
compare where seconds do not. The default probe takes two minutes, most of them for what is
compared with. Set OMP_NUM_THREADS=1 for one thread.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
from torch import Tensor

sys.path += map(str, Path(__file__).resolve().parents[1:3])

from mse_lab.config.probe_files import load_probe
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy
from mse_lab.run import sample
from mse_lab.run.advise import LARGEST_BLOCK
from mse_lab.run.context import load
from mse_lab.run.looks import keyed_order, looks
from mse_lab.run.loop import Batch
from mse_lab.run.source import Drawn
from mse_lab.run.subject import Subject, prepare
from mse_lab.scores import recorder
from mse_lab.scores.sketches import Sketch

ROOT = Path(__file__).resolve().parents[2]
SCORING = ("forward", "input gradients", "Gram", "sketch")
STEPS = ("draw", "reward", *SCORING, "all else")


class Clock:
    """Seconds by step; a step inside another is not counted twice.

    They are the processor's; or, with a model on a GPU, those until the GPU is done.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._cuda = device is not None and device.type == "cuda"
        self._since = self._now()

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()

    def _turn(self) -> None:
        now = self._now()
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

    @contextmanager
    def counting(self, name: str, owner: Any, attribute: str) -> Iterator[None]:
        """Count calls of a function, by its owner and name, as this step's."""
        function = getattr(owner, attribute)

        def call(*given: Any, **named: Any) -> Any:
            with self.step(name):
                return function(*given, **named)

        with mock.patch.object(owner, attribute, call):
            yield


def measure(subject: Subject, batch: Batch, clock: Clock) -> list[Completions]:
    """Measure a batch as an advice does, by the clock; give what was scored of each."""
    scored, score_block = [], sample.score_block

    def noted(policy: Any, prompt: Any, block: Completions, *rest: Any, **how: Any) -> Any:
        scored.append(block.distinct()[0])
        return score_block(policy, prompt, block, *rest, **how)

    with (
        mock.patch.object(sample, "score_block", noted),
        clock.counting("draw", sample, "draw_pools"),
        clock.counting("reward", Drawn, "reward"),
        clock.counting("forward", sample, "score_block"),
        clock.counting("input gradients", Tensor, "backward"),
        clock.counting("Gram", recorder, "reduce_factors"),
        clock.counting("sketch", Sketch, "add"),
        clock.step("all else"),
    ):
        sample.sample_batch(subject, batch, checked=-1)
    return scored


def plain_passes(policy: Policy, prompt: list[int], block: Completions, most: int) -> int:
    """Run completions forward and backward, so many at once as there is memory for."""
    for first in range(0, len(block), most):
        try:
            with torch.enable_grad(), policy.differentiable():
                part = block[first : first + most]
                sequence_log_probs(policy, prompt, part).sum().backward()
        except torch.cuda.OutOfMemoryError:
            pass
        else:
            continue
        torch.cuda.empty_cache()
        return plain_passes(policy, prompt, block, most // 2)
    for parameter in policy.parameters.values():
        parameter.grad = None
    return most


def generate(subject: Subject, batch: Batch) -> None:
    """Draw as many completions of the same prompts as transformers does."""
    prompts = [subject.tokens[item[0]] for item in batch for _ in range(*item[1:])]
    given = torch.tensor(prompts, device=subject.policy.device)
    settings = {"do_sample": True, "top_k": 0, "pad_token_id": 0}
    subject.policy.model.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=subject.probe.sampling.max_new_tokens,
        eos_token_id=[*subject.policy.end_tokens] or None,
        **settings,
    )


def measure_batch(subject: Subject, batch: Batch) -> dict[str, float]:
    """Measure a batch, and do what it is compared with: seconds by step."""
    clock = Clock()
    scored = measure(subject, batch, clock)
    with clock.step("plain"):
        for (index, *_), distinct in zip(batch, scored, strict=True):
            plain_passes(subject.policy, subject.tokens[index], distinct, len(distinct))
    with clock.step("generate"):
        generate(subject, batch)
    drawn = sum(len(range(*block)) for _, *block in batch)
    print(f"{len(batch)} prompts, {drawn} drawn, {sum(map(len, scored))} differentiated")
    return clock.seconds


def ratio(slower: Sequence[float], faster: Sequence[float]) -> str:
    """Divide batch by batch: the median, and the smallest and the largest."""
    ratios = [top / bottom for top, bottom in zip(slower, faster, strict=True)]
    ends = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return f"{statistics.median(ratios):.2f} ({ends})"


def load_subject(name: str, assignments: Sequence[str], folder: Path) -> Subject:
    """Load a probe and its model as an advice does."""
    clock = Clock()
    with clock.step("load"):
        probe = load_probe(ROOT / f"probes/{name}.yaml", assignments)
        subject = load(prepare(name, probe, folder, ROOT), LARGEST_BLOCK)
    print(f"{name}: loaded and planned in {clock.seconds['load']:.1f} s")
    return subject


def report(subject: Subject, count: int) -> None:
    """Print what the first batches of an advice take."""
    order = keyed_order(subject.probe.seed, [one.id for one in subject.prompts])
    first = looks(len(order))[0]
    batches = first.batches(order, list(map(len, subject.tokens)))[:count]
    found = [measure_batch(subject, batch) for batch in batches]
    total = {step: sum(one[step] for one in found) for step in (*STEPS, "plain")}
    whole = sum(total[step] for step in STEPS)
    for step in STEPS:
        share, passes = total[step] / whole, total[step] / total["plain"]
        print(f"  {step:18} {share:4.0%}, {passes:.2f} plain passes")
    scored = [sum(one[step] for step in SCORING) for one in found]
    print("  score / plain pass", ratio(scored, [one["plain"] for one in found]))
    drawn, generated = ([one[step] for one in found] for step in ("draw", "generate"))
    print("  draw / generate   ", ratio(drawn, generated))


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("probe", nargs="?", default="smollm2/icl")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--batches", type=int, default=2, help="of the first look")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        report(load_subject(given.probe, given.set, Path(folder)), given.batches)


if __name__ == "__main__":
    main()
