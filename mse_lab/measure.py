"""Measure one prompt: everything about it that needs the model, as plain arrays."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab import between, checks
from mse_lab.completions import Completions, draw
from mse_lab.config import InputError, Probe
from mse_lab.invariance import score_difference
from mse_lab.kinds import sum_by_kind
from mse_lab.policy import Policy
from mse_lab.prompts import Prompt
from mse_lab.reference import Gradient, Reference, measure_reference
from mse_lab.rewards import Reward, reward_completions
from mse_lab.scores import Scores, score_block
from mse_lab.streams import uniforms

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Bench:
    """What stays the same from prompt to prompt.

    Attributes:
        probe: The configuration.
        policy: The policy.
        reward: The reward.
        keep_vectors: Whether reference vectors are kept as they are, not as sketches.
    """

    probe: Probe
    policy: Policy
    reward: Reward
    keep_vectors: bool


@dataclass(frozen=True)
class Pool:
    """A prompt's pool of completions with their texts and rewards."""

    name: str
    completions: Completions
    texts: list[str]
    rewards_N: NDArray[np.float64]

    def lines(self, prompt: Prompt) -> list[str]:
        """Give the pool's lines of `completions.jsonl`."""
        drawn = self.completions
        return [
            json.dumps(
                {
                    "prompt": prompt.id,
                    "pool": self.name,
                    "text": text,
                    "reward": float(reward),
                    "length": int(length),
                    "log_prob": round(float(log_prob), 6),
                },
                ensure_ascii=False,
            )
            for text, reward, length, log_prob in zip(
                self.texts, self.rewards_N, drawn.lengths_N, drawn.log_probs_N, strict=True
            )
        ]

    def law_gap(self, recomputed_N: NDArray[np.float64]) -> float:
        """Compare the log-probabilities drawn with against recomputed ones."""
        drawn = self.completions
        return checks.law_gap(drawn.log_probs_N, recomputed_N, drawn.lengths_N)


def _draw_pool(
    bench: Bench, prompt: Prompt, tokens: list[int], name: str, size: int
) -> Pool:
    positions = bench.probe.sampling.max_new_tokens
    numbers = uniforms(bench.probe.seed, prompt.id, name, range(size), positions)
    completions = draw(bench.policy, tokens, numbers, prompt.id)
    texts = completions.texts(bench.policy)
    return Pool(name, completions, texts, reward_completions(bench.reward, texts, prompt))


def _score_pool(
    bench: Bench, prompt: Prompt, tokens: list[int], pool: Pool, reference: Reference
) -> list[Scores]:
    """Score the pool, a block of the largest group size at a time."""
    size = bench.probe.largest_group
    blocks = []
    for start in range(0, len(pool.completions), size):
        block = pool.completions[start : start + size]
        scores = score_block(bench.policy, tokens, block, reference.mean)
        finite = np.isfinite(scores.gram_NN.diagonal())
        if not finite.all():
            worst = start + int(np.argmin(finite))
            raise InputError(
                f"prompt {prompt.id}, completion {worst}: its score "
                "is not finite; check the checkpoint, or use another model.dtype"
            )
        blocks.append(scores)
    return blocks


def _pool_arrays(pool: Pool, blocks: list[Scores]) -> dict[str, Any]:
    return {
        "rewards_N": pool.rewards_N,
        "lengths_N": pool.completions.lengths_N,
        "gram_KGG": np.stack([block.gram_NN for block in blocks]),
        "products_N": np.concatenate([block.products_N for block in blocks]),
        "kind_norms2_NM": np.concatenate([sum_by_kind(block.norms2) for block in blocks]),
    }


def _reference_arrays(bench: Bench, pool: Pool, reference: Reference) -> dict[str, Any]:
    def keep(gradient: Gradient) -> NDArray[np.float32]:
        if bench.keep_vectors:
            return between.flatten(gradient)
        return between.sketch(gradient, bench.probe.seed)

    return {
        "reference_rewards_N": pool.rewards_N,
        "reference_product": sum(reference.products.values()),
        "reference_distance2": reference.distance2,
        "kind_products_M": sum_by_kind(reference.products),
        "mean_D": keep(reference.mean),
        "difference_D": keep(reference.difference),
    }


def _completion_arrays(prompt: Prompt, pools: list[Pool]) -> dict[str, Any]:
    lines = [line for pool in pools for line in pool.lines(prompt)]
    return {
        "mean_length": np.concatenate(
            [pool.completions.lengths_N for pool in pools]
        ).mean(),
        "truncated": 1
        - np.concatenate([pool.completions.ended_N for pool in pools]).mean(),
        "lines": np.frombuffer("\n".join(lines).encode(), np.uint8),
    }


def measure_prompt(
    bench: Bench, prompt: Prompt, tokens: list[int], *, first: bool
) -> Arrays:
    """Draw, reward and score the pools of one prompt.

    Args:
        bench: What stays the same from prompt to prompt.
        prompt: The prompt.
        tokens: Its token ids.
        first: Whether to compare a score alone, padded and batched, too.

    Returns:
        The prompt's part of `Pools`, what the checks need, and its completions as UTF-8
        lines of JSON.

    Raises:
        InputError: The model yields NaN or the reward fails; prompt and completion named.
    """
    began = time.monotonic()
    size = bench.probe.pool
    reference_pool = _draw_pool(bench, prompt, tokens, "reference", size.reference)
    reference = measure_reference(
        bench.policy, tokens, reference_pool.completions, reference_pool.rewards_N
    )
    pool = _draw_pool(bench, prompt, tokens, "replicate", size.replicate)
    blocks = _score_pool(bench, prompt, tokens, pool, reference)
    recomputed = np.concatenate([block.log_probs_N for block in blocks])
    arrays: dict[str, Any] = {
        **_pool_arrays(pool, blocks),
        **_reference_arrays(bench, reference_pool, reference),
        **_completion_arrays(prompt, [reference_pool, pool]),
        "law_gap": max(
            reference_pool.law_gap(reference.log_probs_N), pool.law_gap(recomputed)
        ),
    }
    if first:
        block = pool.completions[: bench.probe.largest_group]
        arrays["invariance"] = score_difference(
            bench.policy, tokens, block, reference.mean, blocks[0]
        )
    arrays["seconds"] = time.monotonic() - began
    return {name: np.asarray(value) for name, value in arrays.items()}
