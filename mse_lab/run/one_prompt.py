"""Measure one prompt: everything about it that needs the model, as a `Shard`."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.rival_laws import rival_ratios
from mse_lab.policy.sampling import draw
from mse_lab.probe.module_kinds import sum_by_kind
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import reward_completions
from mse_lab.probe.streams import uniforms
from mse_lab.results.checks import law_gap
from mse_lab.results.diagnostics import describe_tokens
from mse_lab.results.shard import STAGES, Shard
from mse_lab.run.memory import attempt
from mse_lab.run.prepare import Bench
from mse_lab.scores.invariance import score_difference
from mse_lab.scores.reference import Reference, measure_reference
from mse_lab.scores.score_block import Scores, score_block


@dataclass(frozen=True)
class Pool:
    """A prompt's pool of completions with their texts and rewards.

    Of so many the reward is 0 because its comparison was given up.
    """

    name: str
    completions: Completions
    texts: list[str]
    rewards_N: Floats
    given_up: int = 0

    def lines(self, prompt: Prompt) -> list[str]:
        """Give the pool's lines of `completions.jsonl`."""
        drawn = self.completions
        drawn_so = (drawn.lengths_N, drawn.ended_N, drawn.log_probs_N)
        columns = (self.texts, self.rewards_N, *drawn_so)
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
            for text, reward, length, ended, log_prob in zip(*columns, strict=True)
        ]


def _draw_pool(bench: Bench, index: int, name: str, size: int) -> Pool:
    """Draw a pool, or read it, and reward its completions."""
    probe, prompt, supplied = bench.probe, bench.prompts[index], bench.supplied
    positions = probe.sampling.max_new_tokens
    if supplied is not None:
        completions = supplied.read(prompt.id, name, bench.policy, positions)
    else:
        numbers = uniforms(probe.seed, prompt.id, name, range(size), positions)
        completions = attempt(
            bench.memory.drawing,
            lambda size: draw(
                bench.with_batch(size), bench.tokens[index], numbers, prompt.id
            ),
        )
    texts = completions.texts(bench.policy)
    if supplied is not None and probe.reward == "supplied":
        return Pool(name, completions, texts, supplied.rewards(prompt.id, name))
    return Pool(name, completions, texts, *reward_completions(bench.reward, texts, prompt))


def _measure_reference(bench: Bench, index: int, pool: Pool) -> Reference:
    return attempt(
        bench.memory.reference,
        lambda size: measure_reference(
            bench.with_batch(size),
            bench.tokens[index],
            pool.completions,
            pool.rewards_N,
            bench.keep,
        ),
    )


def _score(
    bench: Bench, tokens: list[int], block: Completions, reference: Reference
) -> Scores:
    return attempt(
        bench.memory.scoring,
        lambda how: score_block(bench.policy, tokens, block, reference.mean, how=how),
    )


def _score_pool(bench: Bench, index: int, pool: Pool, reference: Reference) -> list[Scores]:
    """Score the pool, a block of the largest group size at a time."""
    size, blocks = bench.probe.largest_group, []
    for start in range(0, len(pool.completions), size):
        block = pool.completions[start : start + size]
        scores = _score(bench, bench.tokens[index], block, reference)
        finite = np.isfinite(scores.gram_NN.diagonal())
        if not finite.all():
            raise InputError(
                f"prompt {bench.prompts[index].id}, completion "
                f"{start + int(np.argmin(finite))}: its score is not finite; check the "
                "checkpoint, or use another model.dtype"
            )
        blocks.append(scores)
    return blocks


def _law_gap(bench: Bench, completions: Completions, recomputed_N: Floats) -> float:
    """Compare the law drawn from with the differentiated one; NaN if it is not known."""
    if bench.supplied is not None and not bench.supplied.form.log_probs:
        return np.nan
    return law_gap(completions.log_probs_N, recomputed_N, completions.lengths_N)


def _rival_ratios(
    bench: Bench, index: int, completions: Completions, recomputed_N: Floats
) -> Floats:
    """Ask of supplied completions whether another law drew them; empty for others."""
    if bench.supplied is None:
        return np.zeros(0)
    ratios_R = rival_ratios(bench.policy, bench.tokens[index], completions, recomputed_N)
    if not np.isfinite(ratios_R).all():
        raise InputError(
            f"prompt {bench.prompts[index].id}: {bench.supplied.path.name} has a "
            "completion that the model gives no probability; check model.path and "
            "sampling.temperature"
        )
    return ratios_R


def _invariance(bench: Bench, pool: Pool, reference: Reference, block: Scores) -> float:
    """Compare a score of the first prompt alone, padded and in its block."""
    return score_difference(
        bench.policy,
        bench.tokens[0],
        pool.completions[: bench.probe.largest_group],
        reference.mean,
        block,
        bench.memory.scoring.current,
    )


def _look_into(
    bench: Bench, index: int, pools: list[Pool], reference: Reference, blocks: list[Scores]
) -> dict[str, Any]:
    """Describe and check the completions of both pools together."""
    lines = [line for pool in pools for line in pool.lines(bench.prompts[index])]
    drawn = concatenate([pool.completions for pool in pools])
    recomputed = [reference.log_probs_N, *(block.log_probs_N for block in blocks)]
    recomputed_N = np.concatenate(recomputed)
    return {
        "lines": "\n".join(lines),
        "mean_length": float(drawn.lengths_N.mean()),
        "truncated": 1 - float(drawn.ended_N.mean()),
        "given_up": sum(pool.given_up for pool in pools),
        "law_gap": _law_gap(bench, drawn, recomputed_N),
        "rivals_R": _rival_ratios(bench, index, drawn, recomputed_N),
        **describe_tokens(drawn.own_tokens, drawn.ended_N),
    }


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.seconds_S = np.zeros(len(STAGES))

    @contextmanager
    def on(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds_S[STAGES.index(stage)] += time.monotonic() - began


def measure_prompt(bench: Bench, index: int) -> Shard:
    """Draw, reward and score the pools of one prompt.

    Of the first it is also seen that scores are the same alone, padded and batched.

    Raises:
        InputError: The model yields NaN or the reward fails; prompt and completion named.
    """
    clock, size = _Clock(), bench.probe.pool
    with clock.on("draw"):
        reference_pool = _draw_pool(bench, index, "reference", size.reference)
    with clock.on("reference"):
        reference = _measure_reference(bench, index, reference_pool)
    with clock.on("draw"):
        pool = _draw_pool(bench, index, "replicate", size.replicate)
    with clock.on("score"):
        blocks = _score_pool(bench, index, pool, reference)
    with clock.on("rest"):
        found = _look_into(bench, index, [reference_pool, pool], reference, blocks)
        invariance = np.nan if index else _invariance(bench, pool, reference, blocks[0])
    return Shard(
        rewards_N=pool.rewards_N,
        lengths_N=pool.completions.lengths_N,
        gram_KGG=np.stack([block.gram_NN for block in blocks]),
        products_N=np.concatenate([block.products_N for block in blocks]),
        reference_rewards_N=reference_pool.rewards_N,
        reference_product=sum(reference.products.values()),
        reference_distance2=reference.distance2,
        kind_norms2_NM=np.concatenate([sum_by_kind(block.norms2) for block in blocks]),
        kind_products_M=sum_by_kind(reference.products),
        mean_D=reference.kept_mean,
        difference_D=reference.kept_difference,
        seconds_S=clock.seconds_S,
        process=bench.processes.rank,
        threads=torch.get_num_threads(),
        retreated=bench.memory.retreated,
        invariance=invariance,
        **found,
    )
