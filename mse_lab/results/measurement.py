"""The measurement of one prompt: everything that leaves the model's side.

The measurements of P prompts are stacked into `Pools`, from which every number follows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.mse.one_pool import PromptSample
from mse_lab.mse.pools import Pools, inner_products, name_of_all


@dataclass(frozen=True)
class PromptArrays:
    """One prompt's part of `Pools`: N replicate completions, 2n of the reference.

    Arrays without a comment are those of `Pools`, without the axis of prompts. Products of
    the two vectors with other prompts' are `Pools.between_PP` and `Pools.halves_PP`.
    """

    rewards_N: Floats
    lengths_N: Ints
    gram_KGG: Floats
    products_N: Floats
    reference_rewards_N: Floats
    reference_product: float
    reference_distance2: float
    kind_norms2_NM: Floats
    kind_products_M: Floats
    logit_norms2_N: Floats
    mean_D: NDArray[np.float32]  # rbar over all D parameters, or a sketch of it.
    difference_D: NDArray[np.float32]  # r_A - r_B, or a sketch of it.


@dataclass(frozen=True)
class CompletionSummary:
    """What a prompt's completions are like: both pools of a run, a block of a sample."""

    lines: str  # The completions as lines of JSON.
    mean_length: float  # Mean tokens per completion.
    truncated: float  # Share of completions cut at the token limit.
    empty: float  # Share of completions whose first token ends them.
    distinct: float  # Distinct completions over all.
    commonest: float  # Share of the commonest completion.
    end_ids: Ints  # End tokens that occurred.
    end_counts: Ints  # How many completions each of them ended.
    given_up: int  # Completions whose comparison with the answer timed out.


def describe_tokens(completions: Sequence[Ints], ended_N: Flags) -> dict[str, Any]:
    """Compute those fields of `CompletionSummary` that follow from tokens.

    >>> one, other = np.array([7, 2]), np.array([7, 7])
    >>> counts = describe_tokens([one, one, other], np.array([True, True, False]))
    >>> {name: np.asarray(counts[name]).tolist() for name in ("end_ids", "end_counts")}
    {'end_ids': [2], 'end_counts': [2]}
    """
    times = Counter(tokens.tobytes() for tokens in completions)
    last_N = np.array([tokens[-1] for tokens in completions], dtype=np.int64)
    lengths_N = np.array([len(tokens) for tokens in completions])
    end_ids, end_counts = np.unique(last_N[ended_N], return_counts=True)
    return {
        "distinct": len(times) / len(completions),
        "commonest": max(times.values()) / len(completions),
        "empty": float((ended_N & (lengths_N == 1)).mean()),
        "end_ids": end_ids,
        "end_counts": end_counts,
    }


@dataclass(frozen=True)
class PromptChecks:
    """What the checks of a run compare, for one prompt."""

    # Largest difference per token between the log-probabilities of the draw and recomputed
    # ones; NaN where the former are unknown.
    law_gap: float
    # Relative difference between a score alone, padded and in its block; NaN for all
    # prompts but the first.
    invariance: float = np.nan
    # Log-likelihood ratios of X other laws of rare tokens (`run/supplied.py`); empty
    # where the completions were drawn here.
    rare_ratios_X: Floats = field(default_factory=partial(np.zeros, 0))
    # Of each completion that an engine drew log rho and its divergence, as in
    # `mismatch.py`; empty where none did.
    log_ratios_N: Floats = field(default_factory=partial(np.zeros, 0))
    divergences_N: Floats = field(default_factory=partial(np.zeros, 0))


@dataclass(frozen=True)
class Provenance:
    """How a prompt was measured."""

    seconds: float  # What the prompt took.
    device: str  # The model of the device.
    peak_memory: int  # Largest resident memory of the process by then, in bytes.
    process: int = 0  # Rank of the process that measured it.
    threads: int = 1  # Threads that the process had.
    retreated: bool = False  # Whether a pass had run out of memory by then.


@dataclass(frozen=True)
class PromptMeasurement:
    """One prompt, measured."""

    arrays: PromptArrays
    completions: CompletionSummary
    checks: PromptChecks
    provenance: Provenance

    @property
    def mean_reward(self) -> float:
        """Mean reward of the reference pool, an estimate of V."""
        return float(self.arrays.reference_rewards_N.mean())


@dataclass(frozen=True)
class SampledPrompt:
    """A block of a prompt's sample, and what the checks of an advice compare."""

    sample: PromptSample
    completions: CompletionSummary
    law_gap: float  # As in `PromptChecks`.
    # Relative distance of the gradient from that of plain autograd; NaN where it was not
    # compared.
    gradient_gap: float

    @property
    def mean_reward(self) -> float:
        """Mean reward of the block."""
        return float(self.sample.rewards_N.mean())


def stack(prompts: Sequence[PromptArrays]) -> Pools:
    """Stack prompts into pools, and form their products with one another."""
    means = [prompt.mean_D for prompt in prompts]
    differences = [prompt.difference_D for prompt in prompts]
    arrays = {
        name_of_all(field.name): np.array([getattr(one, field.name) for one in prompts])
        for field in fields(PromptArrays)
        if field.name not in ("mean_D", "difference_D")
    }
    arrays["between_PP"] = inner_products(means, means)
    arrays["halves_PP"] = inner_products(differences, means)
    return Pools.from_arrays(arrays)
