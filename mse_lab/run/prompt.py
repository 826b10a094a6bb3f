"""Measure one prompt for a run: all of it that needs the model.

Its completions are drawn here by the policy, or supplied (`supplied.py`).
"""

import json
import platform
import re
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from mse_lab.arrays import Floats, Ints
from mse_lab.config.schema import Probe
from mse_lab.data.prompts import Prompt
from mse_lab.data.rewards import reward_completions
from mse_lab.data.streams import uniforms
from mse_lab.errors import InputError
from mse_lab.estimators.groups import is_binary
from mse_lab.mse.mismatch import Mismatch
from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.policy import Policy
from mse_lab.policy.sampling import draw_together
from mse_lab.results.checks import Check
from mse_lab.results.measurement import (
    CompletionSummary,
    PromptArrays,
    PromptChecks,
    PromptMeasurement,
    Provenance,
    describe_tokens,
)
from mse_lab.run.memory import attempt
from mse_lab.run.subject import Subject
from mse_lab.scores.reference import Reference, measure_reference
from mse_lab.scores.score_block import Scores, Scoring, score_block, score_difference

# The kinds of modules that `pools.npz` has score norms of: kind -> words; the first kind
# with a word in the parameter's name counts.
KINDS: dict[str, tuple[str, ...]] = {
    "norm": ("norm", "ln_"),
    "attention": ("attn", "attention"),
    "mlp": ("mlp", "feed_forward", "ffn", "expert"),
    "embedding": ("embed", "wte", "wpe"),
    "head": ("lm_head",),
    "other": ("",),
}


def kind_of(name: str) -> str:
    """Return the kind of module that a parameter belongs to.

    >>> kind_of("model.layers.0.self_attn.q_proj.weight")
    'attention'
    """
    return next(
        kind for kind, words in KINDS.items() if any(word in name for word in words)
    )


def sum_by_kind(values: Mapping[str, float] | Mapping[str, Floats]) -> Floats:
    """Sum the values of parameters by kind of module: (..., M) in the order of `KINDS`."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    sums = dict.fromkeys(KINDS, np.zeros_like(next(iter(arrays.values()))))
    for name, array in arrays.items():
        sums[kind_of(name)] = sums[kind_of(name)] + array
    return np.stack(list(sums.values()), axis=-1)


def law_gap(drawn_N: Floats, recomputed_N: Floats, lengths_N: Ints) -> float:
    """Give the largest absolute difference of log-probabilities, in nats per token."""
    return float((np.abs(drawn_N - recomputed_N) / lengths_N).max())


class SourceFindings(NamedTuple):
    """What is found of completions that come from elsewhere."""

    checks: Sequence[Check] = ()  # The built-in checks that only these need.
    warnings: Sequence[str] = ()  # What a reader should know about them, a sentence each.
    # How far an engine that drew them is from the policy, where one did.
    mismatch: Mismatch | None = None


class Drawn:
    """Completions that the policy draws here."""

    def validate(self, policy: Policy, probe: Probe) -> None:
        """Refuse what the policy cannot have drawn, before the first measurement."""

    def read(
        self, subject: Subject, indices: Sequence[int], pool: str, completions: range
    ) -> list[Completions]:
        """Give the completions of these numbers in a pool of prompts of one length."""
        probe, ids = subject.probe, [subject.prompts[index].id for index in indices]
        positions = probe.sampling.max_new_tokens
        numbers_PNT = np.stack(
            [uniforms(probe.seed, one, pool, completions, positions) for one in ids]
        )
        tokens = [subject.tokens[index] for index in indices]
        return attempt(
            subject.memory.drawing,
            lambda most: draw_together(
                subject.policy, tokens, numbers_PNT, ids, max_batch=most
            ),
        )

    def reward(
        self, subject: Subject, index: int, pool: str, drawn: Completions, texts: list[str]
    ) -> tuple[Floats, int]:
        """Give their rewards, and how many comparisons with the answer were given up."""
        prompt = subject.prompts[index]
        return reward_completions(subject.reward, texts, prompt, drawn.unpadded)

    def compare(
        self, subject: Subject, index: int, drawn: Completions, recomputed_N: Floats
    ) -> PromptChecks:
        """Compare both pools of a prompt with the policy, by the recomputed law."""
        gap = law_gap(drawn.log_probs_N, recomputed_N, drawn.scored_lengths_N)
        return PromptChecks(law_gap=gap)

    def judge(self, prompts: Sequence[PromptMeasurement]) -> SourceFindings:
        """Say what is found of them, once all prompts are measured."""
        return SourceFindings()


@dataclass(frozen=True)
class CompletionPool:
    """A prompt's completions for one purpose, with their texts and rewards.

    `given_up` of them have reward 0 because their comparison with the answer timed out.
    """

    name: str
    completions: Completions
    texts: list[str]
    rewards_N: Floats
    given_up: int = 0

    def lines(self, prompt: Prompt) -> list[str]:
        """Give the pool's lines of `completions.jsonl`."""
        drawn = self.completions
        drawn_so = (drawn.scored_lengths_N, drawn.ended_N, drawn.log_probs_N)
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
                    # It may not be known where completions come from elsewhere.
                    "log_prob": None if np.isnan(log_prob) else round(float(log_prob), 6),
                },
                ensure_ascii=False,
            )
            for text, reward, length, ended, log_prob in zip(*columns, strict=True)
        ]


def draw_pools(
    subject: Subject, indices: Sequence[int], name: str, completions: range
) -> list[CompletionPool]:
    """Draw completions of a pool of each prompt, or read them; reward them."""
    source, pools = subject.source, []
    drawn = source.read(subject, indices, name, completions)
    for index, one in zip(indices, drawn, strict=True):
        texts = one.texts(subject.policy)
        rewarded = source.reward(subject, index, name, one, texts)
        pools.append(CompletionPool(name, one, texts, *rewarded))
    return pools


def _score_pool(
    subject: Subject, index: int, pool: CompletionPool, reference: Reference
) -> list[Scores]:
    size, blocks = subject.probe.largest_group, []
    policy, tokens = subject.policy, subject.tokens[index]
    for start in range(0, len(pool.completions), size):
        block = pool.completions[start : start + size]

        def score(how: Scoring, block: Completions = block) -> Scores:
            return score_block(policy, tokens, block, reference.mean, how=how)

        scores = subject.memory.score(score)
        refuse_scores(subject, index, scores, np.arange(start, start + len(block)))
        blocks.append(scores)
    return blocks


def refuse_scores(subject: Subject, index: int, scores: Scores, numbers_N: Ints) -> None:
    """Refuse scores that are not finite; name the prompt and the completion."""
    finite = np.isfinite(scores.gram_NN.diagonal())
    if not finite.all():
        raise InputError(
            f"prompt {subject.prompts[index].id}, completion "
            f"{numbers_N[np.argmin(finite)]}: its score is not finite; check the "
            "checkpoint, or use another model.dtype"
        )


def summarise(
    subject: Subject, index: int, pools: list[CompletionPool]
) -> CompletionSummary:
    """Describe a prompt's completions, those of all pools together."""
    prompt = subject.prompts[index]
    lines = [line for pool in pools for line in pool.lines(prompt)]
    drawn = concatenate([pool.completions for pool in pools])
    return CompletionSummary(
        lines="\n".join(lines),
        mean_length=float(drawn.scored_lengths_N.mean()),
        truncated=1 - float(drawn.ended_N.mean()),
        given_up=sum(pool.given_up for pool in pools),
        **describe_tokens(drawn.unpadded, drawn.ended_N),
    )


def _check(
    subject: Subject,
    index: int,
    pools: list[CompletionPool],
    reference: Reference,
    blocks: list[Scores],
) -> PromptChecks:
    """Measure what the checks compare; invariance for the first prompt only."""
    drawn = concatenate([pool.completions for pool in pools])
    recomputed = [reference.log_probs_N, *(block.log_probs_N for block in blocks)]
    recomputed_N = np.concatenate(recomputed)
    invariance = np.nan
    if index == 0:
        invariance = score_difference(
            subject.policy,
            subject.tokens[0],
            pools[1].completions[: subject.probe.largest_group],
            reference.mean,
            blocks[0],
            subject.memory.scoring.current,
        )
    compared = subject.source.compare(subject, index, drawn, recomputed_N)
    return replace(compared, invariance=invariance)


def _refuse_rewards(subject: Subject, index: int, rewards_N: Floats) -> None:
    """Refuse rewards that an estimator cannot take, before the last prompt is measured."""
    for estimator in subject.estimators:
        if estimator.binary and not is_binary(rewards_N):
            raise InputError(
                f"estimators: {estimator.name} needs rewards 0 and 1, and prompt "
                f"{subject.prompts[index].id} has others; remove it, or use another reward"
            )


def device_model(device: torch.device) -> str:
    """Name the model of a GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    named = re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure_prompt(subject: Subject, index: int) -> PromptMeasurement:
    """Draw, reward and score the completions of one prompt.

    The first prompt is also scored alone and padded, as a check.
    """
    began, sizes = time.monotonic(), subject.probe.pool
    [reference_pool] = draw_pools(subject, [index], "reference", range(sizes.reference))
    reference = attempt(
        subject.memory.reference,
        lambda most: measure_reference(
            subject.policy,
            subject.tokens[index],
            reference_pool.completions,
            reference_pool.rewards_N,
            subject.keep,
            max_batch=most,
        ),
    )
    [pool] = draw_pools(subject, [index], "replicate", range(sizes.replicate))
    _refuse_rewards(subject, index, pool.rewards_N)
    blocks = _score_pool(subject, index, pool, reference)
    pools = [reference_pool, pool]
    return PromptMeasurement(
        arrays=PromptArrays(
            rewards_N=pool.rewards_N,
            lengths_N=pool.completions.scored_lengths_N,
            gram_KGG=np.stack([block.gram_NN for block in blocks]),
            products_N=np.concatenate([block.products_N for block in blocks]),
            reference_rewards_N=reference_pool.rewards_N,
            reference_product=sum(reference.products.values()),
            reference_distance2=reference.distance2,
            kind_norms2_NM=np.concatenate([sum_by_kind(block.norms2) for block in blocks]),
            kind_products_M=sum_by_kind(reference.products),
            logit_norms2_N=np.concatenate([block.logit_norms2_N for block in blocks]),
            mean_D=reference.kept_mean,
            difference_D=reference.kept_difference,
        ),
        completions=summarise(subject, index, pools),
        checks=_check(subject, index, pools, reference, blocks),
        provenance=Provenance(
            seconds=time.monotonic() - began,
            device=device_model(subject.policy.device),
            peak_memory=peak_memory_bytes(),
            process=subject.processes.rank,
            threads=torch.get_num_threads(),
            retreated=subject.memory.retreated,
        ),
    )
