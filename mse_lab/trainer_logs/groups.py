"""Groups: the completions of one prompt that were drawn together, and their rewards.

A trainer that does not name its groups may draw a prompt twice in a step. Where the
completions of a prompt at a step are a multiple of the group size they are taken to be as
many groups, in their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import InputError
from mse_lab.mse.zero_variance import equal_share
from mse_lab.trainer_logs.collect import Columns

# Share of completions that stand together by groups where a log is in their order.
IN_ORDER = 0.9


@dataclass(frozen=True)
class Groups:
    """N completions with a reward, in K groups."""

    columns: Columns  # The completions.
    reward_N: Floats  # Their rewards, summed over reward functions.
    group_N: Ints  # Numbers of their groups, 0 to K - 1.
    unscored: int  # Completions without a reward, which are left out.
    drawn_twice: int  # Groups that others of their prompt and step were cut from.

    @cached_property
    def size_K(self) -> Ints:
        """Numbers of completions."""
        return np.bincount(self.group_N)

    @cached_property
    def commonest_size(self) -> int:
        """The group size G of the log, the larger one of two as common."""
        counts = np.bincount(self.size_K)
        return int(len(counts) - 1 - np.argmax(counts[::-1]))

    def _first(self, values_N: Ints) -> Ints:
        _, first = np.unique(self.group_N, return_index=True)
        return values_N[first]

    @cached_property
    def prompt_K(self) -> Ints:
        """Numbers of their prompts, 0 to P - 1."""
        return np.unique(self._first(self.columns.prompt_N), return_inverse=True)[1]

    @cached_property
    def prompt_N(self) -> Ints:
        """Number of each completion's prompt, 0 to P - 1."""
        return self.prompt_K[self.group_N]

    @cached_property
    def step_K(self) -> Ints:
        """Their training steps."""
        return self._first(self.columns.step_N)

    @cached_property
    def mean_K(self) -> Floats:
        """Their mean rewards."""
        return np.bincount(self.group_N, weights=self.reward_N) / self.size_K

    @cached_property
    def variance_K(self) -> Floats:
        """Their rewards' variances, with n - 1; NaN for a single completion."""
        apart_N = np.square(self.reward_N - self.mean_K[self.group_N])
        sums_K = np.bincount(self.group_N, weights=apart_N)
        sizes_K = self.size_K.astype(float)
        out = np.full(len(sizes_K), np.nan)
        return np.divide(sums_K, sizes_K - 1, out=out, where=sizes_K > 1)

    @cached_property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest reward of the log."""
        return float(self.reward_N.min()), float(self.reward_N.max())

    @cached_property
    def right_N(self) -> Flags:
        """Whether a completion has the largest reward of the log.

        Where all have the same one, it is right if it is positive.
        """
        least, most = self.range
        return np.full(len(self.reward_N), most > 0) if least == most else (
            self.reward_N == most
        )  # fmt: skip

    @cached_property
    def wrong_N(self) -> Flags:
        """Whether a completion has the smallest reward of the log."""
        least, most = self.range
        return ~self.right_N if least == most else self.reward_N == least

    @cached_property
    def binary(self) -> bool:
        """Whether there are two rewards at most."""
        return bool((self.right_N | self.wrong_N).all())

    @cached_property
    def right_K(self) -> Ints:
        """Numbers of right completions."""
        return np.bincount(self.group_N[self.right_N], minlength=len(self.size_K))

    @cached_property
    def wrong_K(self) -> Ints:
        """Numbers of wrong completions."""
        return np.bincount(self.group_N[self.wrong_N], minlength=len(self.size_K))

    @cached_property
    def _equal_rewards(self) -> tuple[Ints, Floats]:
        """For each distinct reward of a group: the group, and how many have it."""
        order = np.lexsort((self.reward_N, self.group_N))
        group, reward = self.group_N[order], self.reward_N[order]
        new = np.r_[True, (np.diff(group) != 0) | (np.diff(reward) != 0)]
        counts = np.diff(np.r_[np.flatnonzero(new), len(group)])
        return group[new], counts.astype(float)

    @cached_property
    def zero_variance_K(self) -> Flags:
        """Whether all rewards of a group are equal."""
        return np.bincount(self._equal_rewards[0]) == 1

    def zero_variance_shares(self, group_size: int) -> Floats:
        """Share of the groups of G within each group whose rewards are all equal, (K,).

        Unbiased for what groups of G would have: sum_z C(n_z, G) / C(n, G), for rewards 0
        and 1 [C(c, G) + C(n-c, G)] / C(n, G). NaN where the group is smaller.
        """
        group, counts = self._equal_rewards
        size_K = self.size_K.astype(float)
        large = size_K >= group_size
        known = large[group]
        shares = equal_share(counts[known], size_K[group[known]], group_size)
        sums_K = np.bincount(group[known], weights=shares, minlength=len(size_K))
        return np.where(large, sums_K, np.nan)

    def of(self, values_N: Floats) -> Floats:
        """Average a number of the completions by group, (K,)."""
        return np.bincount(self.group_N, weights=values_N) / self.size_K


def _commonest(sizes: Ints) -> int:
    """The commonest size of two or more; 0 where there is none."""
    counts = np.bincount(sizes, minlength=2)
    counts[:2] = 0
    return int(np.argmax(counts)) if counts.any() else 0


def _size_of_groups(group_N: Ints) -> int:
    """Find G: how many completions of a prompt and step commonly stand together.

    Where a step draws every prompt twice that is half of their number. Trainers that mix
    the order of a step show their commonest number alone.
    """
    sizes = np.bincount(group_N)
    ends = np.flatnonzero(np.diff(group_N, append=-1))
    runs = np.diff(ends, prepend=-1)
    together, number = _commonest(runs), _commonest(sizes)
    if not together or number % together:
        return number
    in_order = runs[runs % together == 0].sum() >= IN_ORDER * len(group_N)
    return together if in_order else number


def _cut_multiples(group_N: Ints, size: int | None) -> tuple[Ints, int]:
    """Cut groups of a multiple of the group size; count what comes of it."""
    size_K = np.bincount(group_N)
    size = size or _size_of_groups(group_N)
    if not size:
        return group_N, 0
    multiple_K = (size_K > size) & (size_K % size == 0)
    order = np.argsort(group_N, kind="stable")
    starts_K = np.r_[0, np.cumsum(size_K)[:-1]]
    rank_N = np.empty(len(group_N), dtype=np.int64)
    rank_N[order] = np.arange(len(group_N)) - starts_K[group_N[order]]
    part_N = np.where(multiple_K[group_N], rank_N // size, 0)
    parts = int(part_N.max()) + 1 if len(part_N) else 1
    cut_N = np.unique(group_N * parts + part_N, return_inverse=True)[1]
    return cut_N, int(multiple_K.sum())


def total_rewards(rewards: Mapping[str, Floats]) -> Floats:
    """Sum rewards over reward functions; NaN where none gave one.

    Sums are rounded to seven decimals: 0.1 + 0.2 and 0.3 are the same reward.
    """
    table = np.stack(list(rewards.values()))
    total = np.nansum(table, axis=0).round(7) if len(table) > 1 else table[0]
    return np.where(np.isnan(table).all(axis=0), np.nan, total)


def _keep(columns: Columns, kept_N: Flags) -> Columns:
    arrays: dict[str, Any] = {
        name: value[kept_N]
        for name, value in vars(columns).items()
        if isinstance(value, np.ndarray)
    }
    rewards = {name: value[kept_N] for name, value in columns.rewards.items()}
    return replace(columns, rewards=rewards, **arrays)


def make_groups(columns: Columns, group_size: int | None = None) -> Groups:
    """Put completions into groups, of the commonest size where none are named."""
    reward_N = total_rewards(columns.rewards)
    known_N = ~np.isnan(reward_N)
    if not known_N.any():
        names = ", ".join(columns.rewards)
        raise InputError(f"{names}: no completion has a reward; name another column")
    kept = columns if known_N.all() else _keep(columns, known_N)
    group_N, drawn_twice = np.unique(kept.group_N, return_inverse=True)[1], 0
    if group_size is not None or not kept.named:
        group_N, drawn_twice = _cut_multiples(group_N, group_size)
    return Groups(kept, reward_N[known_N], group_N, int((~known_N).sum()), drawn_twice)
