"""Diagnostics: what the completions of a run are like, in numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.mismatch import Mismatch
from mse_lab.mse.moments import Proxy, measure_proxy
from mse_lab.mse.pools import Pools
from mse_lab.results.measurement import CompletionSummary


@dataclass(frozen=True)
class EndToken:
    """What ends completions: an end token, or a stop string, and the share it ended."""

    id: int  # -1 for any stop string: many tokens contain it.
    text: str
    share: float


@dataclass(frozen=True)
class Diagnostics:
    """What the completions of a run are like."""

    prompts: int
    completions: int  # Completions of each prompt, in both pools.
    mean_reward: float  # Mean of V over the prompts.
    accuracy: float | None  # The same number if all rewards are 0 or 1, else None.
    never_right: float | None  # Share of prompts with V = 0; None as above.
    always_right: float | None  # Share of prompts with V = 1; None as above.
    # Share of prompts whose reference completions all have the same reward.
    one_reward: float
    truncated: float  # Share of completions cut at the token limit.
    mean_length: float  # Mean tokens of a completion, the end token included.
    empty: float  # Share of completions whose first token ends them.
    distinct: float  # Share of a prompt's completions that are distinct, mean over prompts.
    commonest: float  # Share of a prompt's commonest completion, mean over prompts.
    end_tokens: tuple[EndToken, ...]
    # Completions with reward 0 because their comparison with the answer was given up.
    given_up: int = 0
    # How far the engine that drew them is from the policy, where one did.
    mismatch: Mismatch | None = None
    # How well the logits norm stands for the score's; None where it was not recorded.
    proxy: Proxy | None = None


def _count_ends(
    summaries: Sequence[CompletionSummary], names: Mapping[int, str], completions: int
) -> tuple[EndToken, ...]:
    counts: Counter[int] = Counter(dict.fromkeys(names, 0))
    for summary in summaries:
        ends = zip(summary.end_ids.tolist(), summary.end_counts.tolist(), strict=True)
        for token, count in ends:
            counts[token if token in names else -1] += count
    return tuple(
        EndToken(token, names.get(token, "a stop string"), count / completions)
        for token, count in counts.most_common()
    )


def diagnostics_of(
    rewards: Sequence[Floats],
    summaries: Sequence[CompletionSummary],
    names: Mapping[int, str],
    counts: Sequence[int],
    *,
    binary: bool,
    proxy: Proxy | None = None,
) -> Diagnostics:
    """Describe completions by the rewards of each prompt that give V, and all blocks.

    `names` has the text of every end token, `counts` the completions of each block, and
    `proxy` how well logits norms stand for scores' norms.
    """
    value_P, total = np.array([one.mean() for one in rewards]), sum(counts)

    def mean(name: str) -> float:
        values = [getattr(summary, name) for summary in summaries]
        return float(np.dot(values, counts) / total)

    return Diagnostics(
        prompts=len(rewards),
        completions=total // len(rewards),
        mean_reward=float(value_P.mean()),
        accuracy=float(value_P.mean()) if binary else None,
        never_right=float((value_P == 0).mean()) if binary else None,
        always_right=float((value_P == 1).mean()) if binary else None,
        one_reward=float(np.mean([np.ptp(one) == 0 for one in rewards])),
        truncated=mean("truncated"),
        mean_length=mean("mean_length"),
        empty=mean("empty"),
        distinct=mean("distinct"),
        commonest=mean("commonest"),
        end_tokens=_count_ends(summaries, names, total),
        given_up=sum(summary.given_up for summary in summaries),
        proxy=proxy,
    )


def diagnose(
    pools: Pools, summaries: Sequence[CompletionSummary], names: Mapping[int, str]
) -> Diagnostics:
    """Describe the completions of a run; `names` has the text of every end token."""
    size = pools.rewards_PN.shape[1] + pools.reference_rewards_PN.shape[1]
    return diagnostics_of(
        list(pools.reference_rewards_PN),
        summaries,
        names,
        [size] * pools.prompts,
        binary=pools.binary,
        proxy=measure_proxy(pools),
    )
