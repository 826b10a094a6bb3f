"""What drawing and scoring cost on real weights, beside a plain pass and `generate`.

    PYTHONPATH=tests python -m benchmarks.real_model smollm2/icl

Rounds take each way in turn on the same completions of one prompt; ratios are medians of
the rounds'. `generate` is that of transformers, on as many rows, to the same number of
tokens; it goes on behind the end tokens and stop strings at which the sampler here drops a
row.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks import tool
from benchmarks.cases import MEDIUM, ROOT, Case
from benchmarks.loops import plain_pass
from benchmarks.tables import table
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.probe.probe_files import load_probe, probe_file
from mse_lab.probe.prompts import load_prompts
from mse_lab.run.finish import peak_memory_bytes


def load(name: str) -> tool.Loaded:
    """Load a probe of the project with its first prompt."""
    probe = load_probe(probe_file(name, ROOT))
    policy = load_policy(probe, ROOT)
    prompts = load_prompts(probe.prompts, ROOT)[:1]
    chat, positions = probe.prompts.chat, probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=chat, new_tokens=positions)
    case = Case(MEDIUM, len(tokens[0]), positions)
    return tool.Loaded(case, probe, policy, prompts, tokens)


def seconds(act: Callable[[], object]) -> float:
    """Processor seconds of an act."""
    began = time.process_time()
    act()
    return time.process_time() - began


def main() -> None:
    """Print a table of one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--completions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    loaded, count = load(asked.probe), asked.completions
    model, positions = loaded.policy.model, loaded.probe.sampling.max_new_tokens
    drawn = tool.sample(loaded, 0, "replicate", count)
    distinct = drawn.distinct()[0]
    block = tool.Scored(loaded, distinct, {})
    rows = torch.tensor(loaded.tokens[0]).expand(count, -1)
    as_long = {"max_new_tokens": positions, "min_new_tokens": positions}
    plain = {"do_sample": True, "top_k": 0, "top_p": 1.0, "pad_token_id": 0}
    mask = torch.ones_like(rows)
    ways = {
        "draw": lambda: tool.sample(loaded, 0, "replicate", count),
        "generate": lambda: model.generate(rows, attention_mask=mask, **as_long, **plain),
        "score": lambda: block.products_alone(),
        "plain pass": lambda: plain_pass(block.work),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(asked.rounds):
        for name, act in ways.items():
            took[name].append(seconds(act))
    usual = {name: float(np.median(rounds)) for name, rounds in took.items()}
    over_floor = np.median(np.divide(took["score"], took["plain pass"]))
    tokens = int(drawn.own_lengths_N.sum())
    head = ["probe", "prompt + completion", "drawn", "distinct", "draw, s each",
            "draw, tokens/s", "generate, tokens/s", "score, s each", "score / plain pass",
            "peak GB"]  # fmt: skip
    row = [asked.probe, loaded.case.shape, count, len(distinct),
           f"{usual['draw'] / count:.3f}", f"{tokens / usual['draw']:.0f}",
           f"{count * positions / usual['generate']:.0f}",
           f"{usual['score'] / len(distinct):.3f}", f"{over_floor:.2f}",
           f"{peak_memory_bytes() / 1e9:.1f}"]  # fmt: skip
    print(table(head, [row]))


if __name__ == "__main__":
    main()
