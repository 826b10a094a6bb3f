"""Diagnostics: what completions are like, and what would make their numbers mean little.

Nothing here is wrong with a run whose checks hold; but if no prompt has both right and
wrong completions, if all are cut, or if ||g||^2 is lost in its own noise, then the errors
of estimators that it compares are those of a measurement nobody wants.

The standard error of the aggregate's ||g||^2 adds up, over prompts, the variance of
<r_A, r_B>, which is tr(Sigma^2) / n^2 where g is zero, and the square of what the noise of
rbar(x) does to the products with the other prompts, <r_A(x) - r_B(x), sum rbar(x')>.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from mse_lab.arrays import Floats
from mse_lab.mse.binary_laws import is_binary
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import covariance_square_trace
from mse_lab.results.shard import Shard

# Shares of completions, or of prompts, from which on a warning is given.
MOST, NEARLY_ALL = 0.5, 0.9

# Standard errors that ||g||^2 has to stand away from zero.
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class EndToken:
    """A token that ends completions.

    Attributes:
        id: Its id.
        text: The token as the tokenizer writes it.
        share: Share of the completions that it ended.
    """

    id: int
    text: str
    share: float


@dataclass(frozen=True)
class Diagnostics:
    """What the completions of a run are like.

    Attributes:
        prompts: How many.
        completions: How many of each prompt, both pools.
        mean_reward: Mean of V over the prompts.
        accuracy: The same where all rewards are 0 or 1, else None.
        never_right: Share of prompts with V = 0; None unless all rewards are 0 or 1.
        always_right: Share of prompts with V = 1; None unless all rewards are 0 or 1.
        one_reward: Share of prompts whose reference completions have all the same reward.
        truncated: Share of completions cut at the token limit.
        mean_length: Mean tokens of a completion, the end token included.
        empty: Share of completions whose first token ends them.
        distinct: Distinct completions of a prompt over all of its, mean over prompts.
        commonest: Share of a prompt's commonest completion, mean over prompts.
        end_tokens: Every token that ends completions.
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
        if self.accuracy is None:
            rewards = (
                f"mean reward {self.mean_reward:.3g}, "
                f"all the same on {_percent(self.one_reward)} of {self.prompts} prompts"
            )
        else:
            rewards = (
                f"accuracy {self.accuracy:.3g}, V = 0 on {_percent(self.never_right)} and "
                f"V = 1 on {_percent(self.always_right)} of {self.prompts} prompts"
            )
        ends = ", ".join(f"{one.text} {_percent(one.share)}" for one in self.end_tokens)
        return [
            f"rewards: {rewards}",
            f"completions: {self.mean_length:.3g} tokens on average, "
            f"{_percent(self.truncated)} truncated, {_percent(self.distinct)} distinct; "
            f"ended by {ends or 'nothing'}",
        ]


def restore(values: Mapping[str, Any]) -> Diagnostics | None:
    """Read back `diagnostics.json`; None where another version wrote it."""
    names = {field.name for field in fields(Diagnostics)}
    if {*values, "given_up"} != names:
        return None
    return TypeAdapter(Diagnostics).validate_python(values)


def _percent(share: float | None) -> str:
    """Write a share.

    >>> _percent(0.0312), _percent(1.0)
    ('3.12%', '100%')
    """
    return "" if share is None else f"{100 * share:.3g}%"


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


def gradient_norm2_error(pools: Pools) -> float:
    """Estimate the standard error of the aggregate's ||g||^2 where g is zero."""
    own_P = covariance_square_trace(pools) / pools.reference_half**2
    halves_PP = pools.halves_PP - np.diag(np.diag(pools.halves_PP))
    others_P: Floats = halves_PP.sum(-1) ** 2
    return float(np.sqrt((own_P + others_P).sum()) / pools.prompts**2)


def _count_ends(
    shards: Sequence[Shard], names: Mapping[int, str], completions: int
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
        shards: What was measured of each prompt.
        names: End token -> its text, every one that there is.
    """
    value_P = pools.value_P
    binary = is_binary(pools.rewards_PN) and is_binary(pools.reference_rewards_PN)
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
        gradient_norm2_error=gradient_norm2_error(pools),
        given_up=sum(shard.given_up for shard in shards),
    )


def _warn_of_rewards(found: Diagnostics) -> str | None:
    if found.never_right == 1:
        return (
            "no completion in any prompt's reference was right: the true gradient cannot "
            "be told from zero; look at some of completions.jsonl, then at the template, "
            "the reward and sampling.max_new_tokens"
        )
    if found.always_right == 1:
        return (
            "every completion in every prompt's reference was right: there is nothing "
            "left to learn from these prompts; take harder ones"
        )
    if found.one_reward == 1:
        return (
            "every prompt's reference completions have one reward: the true gradient "
            "cannot be told from zero; look at completions.jsonl, then at the reward"
        )
    if found.one_reward > MOST:
        told = "V = 0 or 1" if found.accuracy is not None else "all rewards are the same"
        rest = round((1 - found.one_reward) * found.prompts)
        return (
            f"{told} on {_percent(found.one_reward)} of the prompts: the aggregate is "
            f"carried by the other {rest} of {found.prompts}; take prompts that the model "
            "gets right now and then, or more completions in pool.reference"
        )
    return None


def _warn_of_ends(found: Diagnostics) -> str | None:
    if not any(one.share for one in found.end_tokens):
        known = ", ".join(f"{one.text} ({one.id})" for one in found.end_tokens) or "none"
        return (
            f"no completion ever drew an end token (known: {known}): they all were cut at "
            "sampling.max_new_tokens; raise it, or look at prompts.template and "
            "prompts.chat: after this prompt the model may not know where to stop"
        )
    if found.truncated > MOST:
        return (
            f"{_percent(found.truncated)} of the completions were cut at "
            "sampling.max_new_tokens: rewards and gradient are those of the cut policy; "
            "raise it"
        )
    return None


def _warn_of_variety(found: Diagnostics) -> str | None:
    if found.empty > MOST:
        return (
            f"{_percent(found.empty)} of the completions are empty, ended by their first "
            "token: the prompt seems to end the turn; look at prompts.template and "
            "prompts.chat"
        )
    if found.commonest > NEARLY_ALL:
        return (
            f"a prompt's completions are nearly all the same, {_percent(found.commonest)} "
            "of them on average: groups rarely differ in reward, so errors rest on a few "
            "rare completions; raise sampling.temperature or take harder prompts"
        )
    return None


def _warn_of_given_up(found: Diagnostics) -> str | None:
    if not found.given_up:
        return None
    return (
        f"{found.given_up} comparisons with the answer took too long and were given up: "
        "these completions have reward 0, which another machine may see otherwise"
    )


def _warn_of_gradient(found: Diagnostics) -> str | None:
    error = found.gradient_norm2_error
    # Where every prompt has one reward there is no gradient, and that is said already.
    if found.one_reward == 1 or found.gradient_norm2 > STANDARD_ERRORS * error:
        return None
    return (
        f"the aggregate's ||g||^2 = {found.gradient_norm2:.3g} is within "
        f"{STANDARD_ERRORS:g} standard errors ({error:.3g}) of zero: relative and "
        "scale-free MSE and cosines mean little; take more completions in pool.reference, "
        "or more prompts"
    )


def warn_of_completions(found: Diagnostics) -> list[str]:
    """Say in words what would make the measurement mean little."""
    warnings = (
        _warn_of_rewards(found),
        _warn_of_given_up(found),
        _warn_of_ends(found),
        _warn_of_variety(found),
        _warn_of_gradient(found),
    )
    return [warning for warning in warnings if warning is not None]
