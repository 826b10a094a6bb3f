"""Diagnostics: what the completions of a run are like, in numbers and in two lines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import aggregate_norm2_error
from mse_lab.results.shard import Shard
from mse_lab.wording import share as in_percent

percent = partial(in_percent, digits=3)


@dataclass(frozen=True)
class EndToken:
    """A token that ends completions, and the share of the completions that it ended."""

    id: int
    text: str
    share: float


@dataclass(frozen=True)
class Diagnostics:
    """What the completions of a run are like.

    Attributes:
        completions: How many of each prompt, both pools.
        mean_reward: Mean of V over the prompts.
        accuracy: The same where all rewards are 0 or 1, else None.
        never_right: Share of prompts with V = 0; None unless all rewards are 0 or 1.
        always_right: The same with V = 1.
        one_reward: Share of prompts whose reference completions have all the same reward.
        truncated: Share of completions cut at the token limit.
        mean_length: Mean tokens of a completion, the end token included.
        empty: Share of completions whose first token ends them.
        distinct: Distinct completions of a prompt over all of its, mean over prompts.
        commonest: Share of a prompt's commonest completion, mean over prompts.
        gradient_norm2: The aggregate's ||g||^2, unbiased.
        gradient_norm2_error: Its standard error where g is zero.
        given_up: Completions whose comparison with the answer was given up: reward 0.
    """

    prompts: int
    completions: int
    mean_reward: float
    accuracy: float | None
    never_right: float | None
    always_right: float | None
    one_reward: float
    truncated: float
    mean_length: float
    empty: float
    distinct: float
    commonest: float
    end_tokens: tuple[EndToken, ...]
    gradient_norm2: float
    gradient_norm2_error: float
    given_up: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Give the content of `diagnostics.json`."""
        return asdict(self)

    @property
    def lines(self) -> list[str]:
        """Put them in two lines for the screen."""
        same = percent(self.one_reward)
        rewards = f"mean reward {self.mean_reward:.3g}, all the same on {same}"
        if self.never_right is not None and self.always_right is not None:
            rewards = (
                f"accuracy {self.mean_reward:.3g}, V = 0 on {percent(self.never_right)} "
                f"and V = 1 on {percent(self.always_right)}"
            )
        ends = ", ".join(f"{one.text} {percent(one.share)}" for one in self.end_tokens)
        return [
            f"rewards: {rewards} of {self.prompts} prompts",
            f"completions: {self.mean_length:.3g} tokens on average, "
            f"{percent(self.truncated)} truncated, {percent(self.distinct)} distinct; "
            f"ended by {ends or 'nothing'}",
        ]


def restore(values: Mapping[str, Any]) -> Diagnostics | None:
    """Read back `diagnostics.json`; None where another version wrote it."""
    names = {field.name for field in fields(Diagnostics)}
    if {*values, "given_up"} != names:
        return None
    return TypeAdapter(Diagnostics).validate_python(values)


def describe_tokens(
    completions: Sequence[NDArray[np.int64]], ended_N: NDArray[np.bool_]
) -> dict[str, Any]:
    """Count in the tokens of a prompt's completions what `diagnose` needs.

    Args:
        completions: Each one's own tokens, at least one.
        ended_N: Whether the last of them is an end token.

    >>> one, other = np.array([7, 2]), np.array([7, 7])
    >>> found = describe_tokens([one, one, other], np.array([True, True, False]))
    >>> {name: np.asarray(found[name]).tolist() for name in ("end_ids", "end_counts")}
    {'end_ids': [2], 'end_counts': [2]}
    """
    times = Counter(tokens.tobytes() for tokens in completions)
    last_N = np.array([tokens[-1] for tokens in completions], dtype=np.int64)
    lengths_N = np.array([len(tokens) for tokens in completions])
    end_ids, end_counts = np.unique(last_N[ended_N], return_counts=True)
    return {
        "distinct": len(times) / len(completions),
        "commonest": max(times.values()) / len(completions),
        "empty": (ended_N & (lengths_N == 1)).mean(),
        "end_ids": end_ids,
        "end_counts": end_counts,
    }


def _count_ends(
    shards: Sequence[Shard],
    names: Mapping[int, str],
    completions: int,
) -> tuple[EndToken, ...]:
    counts: Counter[int] = Counter(dict.fromkeys(names, 0))
    for shard in shards:
        pairs = zip(shard.end_ids.tolist(), shard.end_counts.tolist(), strict=True)
        counts.update(dict(pairs))
    return tuple(
        EndToken(token, names.get(token, str(token)), count / completions)
        for token, count in counts.most_common()
    )


def diagnose(
    pools: Pools, shards: Sequence[Shard], names: Mapping[int, str]
) -> Diagnostics:
    """Describe the completions of a run.

    Args:
        pools: The pools.
        shards: Of each prompt `mean_length`, `truncated` and what `describe_tokens` found.
        names: End token -> its text, every one that there is.
    """
    value_P, binary = pools.value_P, pools.binary
    size = pools.rewards_PN.shape[1] + pools.reference_rewards_PN.shape[1]

    def mean(name: str) -> float:
        return float(np.mean([getattr(shard, name) for shard in shards]))

    return Diagnostics(
        prompts=pools.prompts,
        completions=size,
        mean_reward=float(value_P.mean()),
        accuracy=float(value_P.mean()) if binary else None,
        never_right=float((value_P == 0).mean()) if binary else None,
        always_right=float((value_P == 1).mean()) if binary else None,
        one_reward=float((np.ptp(pools.reference_rewards_PN, axis=-1) == 0).mean()),
        truncated=mean("truncated"),
        mean_length=mean("mean_length"),
        empty=mean("empty"),
        distinct=mean("distinct"),
        commonest=mean("commonest"),
        end_tokens=_count_ends(shards, names, size * pools.prompts),
        gradient_norm2=pools.aggregate_norm2,
        gradient_norm2_error=aggregate_norm2_error(pools),
        given_up=sum(shard.given_up for shard in shards),
    )
