"""Scoring at the shapes of real models.

    PYTHONPATH=tests python -m benchmarks.real_shapes 0.5B

Qwen2.5 of 0.5B, 1.5B or 7B parameters, randomly initialised, on a GPU in bfloat16 and else
on the CPU in float32: the time of scoring a block over that of one plain forward and
backward pass, in turn, and the most memory that each takes beside the weights and the
reference vector.
"""

import argparse
import gc
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.qwen import SHAPES
from mse_lab.measurement.footprint import measure_footprint
from mse_lab.measurement.memory import scoring_bytes
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy
from mse_lab.scores.score_block import Scoring, score_block

PAGE = os.sysconf("SC_PAGE_SIZE")


def random_block(policy: Policy, count: int, tokens: int) -> Completions:
    """Draw completions of full length; which tokens they are costs no time."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(3, policy.model.config.vocab_size, (count, tokens))
    return Completions(
        drawn, np.full(count, tokens), np.zeros(count), np.zeros(count, np.bool_)
    )


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """The most memory that a piece of work takes beyond what there was."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    before, most, done = _resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return most - before


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Time a piece of work, the device's queue emptied."""
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def main() -> None:
    """Print a table for one shape."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--completions", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=48)
    parser.add_argument("--new", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", metavar="WORD", help="of these names only")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    policy = SHAPES[asked.shape].policy(device.type, dtype)
    prompt, count = list(range(3, 3 + asked.prompt)), asked.completions
    block = random_block(policy, count, asked.new)
    reference = {
        name: torch.zeros_like(parameter, dtype=torch.float32)
        for name, parameter in policy.parameters.items()
    }
    footprint = measure_footprint(policy, prompt, asked.new)

    def plain() -> None:
        with policy.differentiable(), torch.enable_grad():
            sequence_log_probs(policy, prompt, block).sum().backward()

    # From the least memory to the most: a host gives freed memory back late.
    ways = {
        "norms, one at a time": Scoring(1, sliced=True),
        "layers recomputed, in parts of 2": Scoring(count, 2, True),
        "layers recomputed": Scoring(count, count, True),
        "whole, sliced head": Scoring(count, sliced=True),
        "whole": Scoring(count),
    }
    ways = {
        name: how
        for name, how in ways.items()
        if not asked.ways or any(word in name for word in asked.ways)
    }
    works: dict[str, Callable[[], object]] = {
        name: lambda how=how: score_block(policy, prompt, block, reference, how=how)
        for name, how in ways.items()
    }
    peaks = {name: peak_bytes(work, device) for name, work in works.items()}
    plain_peak = peak_bytes(plain, device)
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(asked.rounds):
        floor = seconds(plain, device)
        for name, work in works.items():
            ratios[name].append(seconds(work, device) / floor)
    print(
        f"Qwen2.5-{asked.shape}, {policy.size:,} parameters, {count} completions, "
        f"{asked.prompt} + {asked.new} tokens, {device.type}, {policy.model.dtype}, "
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; plain pass "
        f"{floor / count:.2f} s a completion, {plain_peak / 1e9:.2f} GB with its gradient\n"
    )
    print("| scoring | time / plain pass | peak GB | estimated GB |\n|---|---|---|---|")
    for name, how in ways.items():
        found = ratios[name]
        spread = f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"
        estimate = scoring_bytes(footprint, how) / 1e9
        print(f"| {name} | {spread} | {peaks[name] / 1e9:.2f} | {estimate:.2f} |")


if __name__ == "__main__":
    main()
