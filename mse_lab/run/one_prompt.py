"""Measure one prompt: everything about it that needs the model, as plain arrays."""

import json
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mse_lab.arrays import Arrays
from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions, concatenate, draw
from mse_lab.policy.other_laws import rival_ratios
from mse_lab.policy.policy import Policy
from mse_lab.policy.supplied import Supplied
from mse_lab.probe.module_kinds import sum_by_kind
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import Reward, reward_completions
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import uniforms
from mse_lab.results import checks
from mse_lab.results.diagnostics import describe_tokens
from mse_lab.run.memory import Memory, attempt
from mse_lab.scores import sketches as between
from mse_lab.scores.block import Scores, score_block
from mse_lab.scores.invariance import score_difference
from mse_lab.scores.reference import Gradient, Reference, measure_reference


@dataclass(frozen=True)
class Bench:
    """What stays the same from prompt to prompt.

    Attributes:
        probe: The configuration.
        policy: The policy.
        reward: The reward.
        keep_vectors: Whether reference vectors are kept as they are, not as sketches.
        memory: How much is done at once.
        supplied: The completions that are read instead of drawn, if any.
    """

    probe: Probe
    policy: Policy
    reward: Reward
    keep_vectors: bool
    memory: Memory
    supplied: Supplied | None = None

    def keep(self, gradient: Gradient) -> NDArray[np.float32]:
        """Give what is kept of a reference vector beyond its prompt."""
        if self.keep_vectors:
            # A prompt may leave out parameters that another uses, such as an expert's.
            whole = {
                name: gradient.get(name, torch.zeros_like(parameter))
                for name, parameter in self.policy.parameters.items()
            }
            return between.flatten(whole)
        return between.sketch(gradient, self.probe.seed)

    def with_batch(self, completions: int) -> Policy:
        """Give the policy, so many completions in one of its passes."""
        return replace(self.policy, batch=completions)


@dataclass(frozen=True)
class Pool:
    """A prompt's pool of completions with their texts and rewards.

    Of so many the reward is 0 because its comparison was given up.
    """

    name: str
    completions: Completions
    texts: list[str]
    rewards_N: NDArray[np.float64]
    given_up: int = 0

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
                    "truncated": not ended,
                    # Of completions from elsewhere it may not be known.
                    "log_prob": None if np.isnan(log_prob) else round(float(log_prob), 6),
                },
                ensure_ascii=False,
            )
            for text, reward, length, ended, log_prob in zip(
                self.texts,
                self.rewards_N,
                drawn.lengths_N,
                drawn.ended_N,
                drawn.log_probs_N,
                strict=True,
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
    if bench.supplied is not None:
        return _take_pool(bench, bench.supplied, prompt, name)
    numbers = uniforms(bench.probe.seed, prompt.id, name, range(size), positions)
    completions = attempt(
        bench.memory.drawing,
        lambda size: draw(bench.with_batch(size), tokens, numbers, prompt.id),
    )
    texts = completions.texts(bench.policy)
    return Pool(name, completions, texts, *reward_completions(bench.reward, texts, prompt))


def _take_pool(bench: Bench, supplied: Supplied, prompt: Prompt, name: str) -> Pool:
    positions = bench.probe.sampling.max_new_tokens
    completions = supplied.read(prompt.id, name, bench.policy, positions)
    texts = completions.texts(bench.policy)
    if bench.probe.reward == "supplied":
        return Pool(name, completions, texts, supplied.rewards(prompt.id, name))
    return Pool(name, completions, texts, *reward_completions(bench.reward, texts, prompt))


def _law_arrays(
    bench: Bench,
    prompt: Prompt,
    tokens: list[int],
    pools: list[Pool],
    recomputed: list[NDArray[np.float64]],
) -> dict[str, Any]:
    """Compare the law that the completions were drawn from with the differentiated one."""
    supplied = bench.supplied
    found: dict[str, Any] = {}
    if supplied is None or supplied.form.log_probs:
        pairs = zip(pools, recomputed, strict=True)
        found["law_gap"] = max(pool.law_gap(log_probs) for pool, log_probs in pairs)
    if supplied is not None:
        completions = concatenate([pool.completions for pool in pools])
        log_probs_N = np.concatenate(recomputed)
        ratios = rival_ratios(bench.policy, tokens, completions, log_probs_N)
        if not np.isfinite(ratios).all():
            raise InputError(
                f"prompt {prompt.id}: {supplied.path.name} has a completion that the model "
                "gives no probability; check model.path and sampling.temperature"
            )
        found["rivals_R"] = ratios
    return found


def _score(
    bench: Bench, tokens: list[int], block: Completions, reference: Reference
) -> Scores:
    return attempt(
        bench.memory.scoring,
        lambda how: score_block(bench.policy, tokens, block, reference.mean, how=how),
    )


def _score_pool(
    bench: Bench, prompt: Prompt, tokens: list[int], pool: Pool, reference: Reference
) -> list[Scores]:
    """Score the pool, a block of the largest group size at a time."""
    size = bench.probe.largest_group
    blocks = []
    for start in range(0, len(pool.completions), size):
        block = pool.completions[start : start + size]
        scores = _score(bench, tokens, block, reference)
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


def _reference_arrays(pool: Pool, reference: Reference) -> dict[str, Any]:
    return {
        "reference_rewards_N": pool.rewards_N,
        "reference_product": sum(reference.products.values()),
        "reference_distance2": reference.distance2,
        "kind_products_M": sum_by_kind(reference.products),
        "mean_D": reference.kept_mean,
        "difference_D": reference.kept_difference,
    }


def _completion_arrays(prompt: Prompt, pools: list[Pool]) -> dict[str, Any]:
    lines = [line for pool in pools for line in pool.lines(prompt)]
    ended_N = np.concatenate([pool.completions.ended_N for pool in pools])
    own_tokens = [own for pool in pools for own in pool.completions.own_tokens]
    return {
        "mean_length": np.mean([len(tokens) for tokens in own_tokens]),
        "truncated": 1 - ended_N.mean(),
        "given_up": sum(pool.given_up for pool in pools),
        "lines": np.frombuffer("\n".join(lines).encode(), np.uint8),
        **describe_tokens(own_tokens, ended_N),
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
    reference = attempt(
        bench.memory.reference,
        lambda size: measure_reference(
            bench.with_batch(size),
            tokens,
            reference_pool.completions,
            reference_pool.rewards_N,
            bench.keep,
        ),
    )
    pool = _draw_pool(bench, prompt, tokens, "replicate", size.replicate)
    blocks = _score_pool(bench, prompt, tokens, pool, reference)
    recomputed = np.concatenate([block.log_probs_N for block in blocks])
    arrays: dict[str, Any] = {
        **_pool_arrays(pool, blocks),
        **_reference_arrays(reference_pool, reference),
        **_completion_arrays(prompt, [reference_pool, pool]),
        **_law_arrays(
            bench,
            prompt,
            tokens,
            [reference_pool, pool],
            [reference.log_probs_N, recomputed],
        ),
    }
    if first:
        block = pool.completions[: bench.probe.largest_group]
        arrays["invariance"] = score_difference(
            bench.policy,
            tokens,
            block,
            reference.mean,
            blocks[0],
            bench.memory.scoring.current,
        )
    arrays["seconds"] = time.monotonic() - began
    return {name: np.asarray(value) for name, value in arrays.items()}
