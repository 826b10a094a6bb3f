"""Collect completions into columns: a few numbers of each, whatever its length.

Texts and lists of tokens are kept as hashes of 64 bits, by which equal ones are found.
Where a log does not give a number, whole numbers are -1 and others NaN.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import InputError, one_line, shorten
from mse_lab.mse.mismatch import token_divergences
from mse_lab.trainer_logs.completion import Completion, RecordPosition

UNKNOWN = -1

MOST_NATS = 1e9  # No token that was drawn has a log-probability of -1e9.
MOST_LOG = 0.1  # Log-probabilities of low precision may be this far above 0.


@dataclass(frozen=True)
class Columns:
    """N completions, an array for each of their numbers."""

    prompts: Sequence[str]  # A label of each prompt.
    named: bool  # Whether the log names the group of every completion.
    prompt_N: Ints  # The number of its prompt.
    # The number of its group: one for each prompt, step and name of a group.
    group_N: Ints
    step_N: Ints  # The training step.
    rewards: dict[str, Floats]  # By reward function, (N,).
    whole: frozenset[str]  # Those of them that hold whole numbers, not floats.
    content_N: Ints  # A hash of its tokens or else its text; 0 where the log has neither.
    length_N: Ints  # The number of tokens that the policy drew.
    characters_N: Ints  # The number of characters of its text.
    truncated_N: Ints  # 1 where the limit cut it, else 0.
    last_token_N: Ints  # Its last token.
    advantage_N: Floats  # The trainer's advantage.
    tokens_N: Ints  # The number of tokens with both log-probabilities.
    log_ratio_N: Floats  # The sum over these tokens of log p(trainer) - log p(sampler).
    # The sum over these tokens of r - 1 - log r, r the ratio of the two probabilities.
    kl_N: Floats

    def keep(self, kept_N: Flags) -> "Columns":
        """Keep some of the completions."""
        arrays: dict[str, Any] = {
            name: value[kept_N]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray)
        }
        rewards = {name: value[kept_N] for name, value in self.rewards.items()}
        return replace(self, rewards=rewards, **arrays)


def _read_logs(
    given: Sequence[float], mask: Sequence[float] | None, where: RecordPosition
) -> Floats:
    """Read log-probabilities, (T,); NaN where the policy did not draw the token."""
    logs_T = np.array(given, dtype=float)
    if mask is not None and len(mask) == len(logs_T):
        logs_T[~(np.array(mask, dtype=float) > 0)] = math.nan
    if (logs_T > MOST_LOG).any():
        raise InputError(
            f"{where}: {np.nanmax(logs_T):g} is no log-probability; give the natural "
            "logarithm of each token's probability"
        )
    return logs_T


def log_ratio(completion: Completion, where: RecordPosition) -> tuple[int, float, float]:
    """Compare the two log-probabilities of a completion: `tokens_N`, `log_ratio_N`, `kl_N`.

    `mse/mismatch.py` says what they are.
    """
    both = completion.log_probs, completion.trainer_log_probs
    logs = [_read_logs(one, completion.mask, where) for one in both if one is not None]
    if len(logs) < 2:
        return 0, math.nan, math.nan
    sampler, trainer = logs
    if len(sampler) != len(trainer):
        raise InputError(
            f"{where}: {len(sampler)} log-probabilities of the sampler, {len(trainer)} of "
            "the trainer; give one of each for a token"
        )
    logs_T = trainer - sampler
    logs_T = logs_T[np.abs(logs_T) < MOST_NATS]
    return len(logs_T), float(logs_T.sum()), float(token_divergences(logs_T).sum())


def _hash(completion: Completion) -> int:
    if completion.tokens is not None:
        return hash(tuple(completion.tokens)) or 1
    return 0 if completion.text is None else hash(completion.text) or 1


def _new_columns() -> dict[str, "array[Any]"]:
    kinds = Columns.__annotations__
    return {
        name: array("q" if kind is Ints else "d")
        for name, kind in kinds.items()
        if name.endswith("_N")
    }


@dataclass
class Collector:
    """Columns that grow by one completion at a time."""

    labels: list[str] = field(default_factory=list)
    named: bool = True
    columns: dict[str, "array[Any]"] = field(default_factory=_new_columns)
    rewards: dict[str, "array[float]"] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    _prompts: dict[int, int] = field(default_factory=dict)
    _groups: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns["step_N"])

    def add(self, completion: Completion, where: RecordPosition) -> None:
        """Add a completion."""
        prompt = self._prompts.setdefault(hash(completion.prompt), len(self.labels))
        if prompt == len(self.labels):
            self.labels.append(shorten(one_line(completion.prompt[:1000]), 60))
        group = hash((prompt, completion.step, completion.group))
        tokens, text = completion.tokens, completion.text
        length = completion.length
        if length is None and tokens is not None:
            mask = completion.mask
            length = len(tokens) if mask is None else sum(map(bool, mask))
        self.named &= completion.group is not None
        count, ratio, divergence = log_ratio(completion, where)
        values = {
            "prompt_N": prompt,
            "group_N": self._groups.setdefault(group, len(self._groups)),
            "step_N": completion.step,
            "content_N": _hash(completion),
            "length_N": length,
            "characters_N": None if text is None else len(text),
            "truncated_N": completion.truncated,
            "last_token_N": tokens[-1] if tokens else None,
            "advantage_N": completion.advantage,
            "tokens_N": count,
            "log_ratio_N": ratio,
            "kl_N": divergence,
        }
        for name, column in self.columns.items():
            unknown = UNKNOWN if column.typecode == "q" else math.nan
            column.append(unknown if values[name] is None else values[name])
        self._add_rewards(completion)

    def _add_rewards(self, completion: Completion) -> None:
        count = len(self) - 1
        for name in [one for one in completion.rewards if one not in self.rewards]:
            self.rewards[name] = array("d", [math.nan]) * count
        self.whole |= {one for one, got in completion.rewards.items() if type(got) is int}
        for name, column in self.rewards.items():
            column.append(completion.rewards.get(name, math.nan))

    def drop_from(self, start: int) -> None:
        """Remove the completions from the number `start` on."""
        for column in (*self.columns.values(), *self.rewards.values()):
            del column[start:]

    def finish(self) -> Columns:
        """Return the columns as arrays, which share their memory."""
        arrays: dict[str, Any] = {
            name: _as_array(column) for name, column in self.columns.items()
        }
        rewards = {name: _as_array(column) for name, column in self.rewards.items()}
        arrays |= {"rewards": rewards, "whole": frozenset(self.whole)}
        return Columns(prompts=self.labels, named=self.named, **arrays)


def _as_array(column: "array[Any]") -> NDArray[Any]:
    kind = np.int64 if column.typecode == "q" else np.float64
    return np.frombuffer(column, dtype=kind) if column else np.empty(0, dtype=kind)
