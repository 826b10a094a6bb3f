"""Groups: the completions of one prompt that were drawn together, and their rewards.

A trainer that does not name its groups may draw a prompt twice in a step. Where a prompt
has k G completions at a step, G the group size, they are cut into k groups in their order.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import InputError
from mse_lab.mse.zero_variance import equal_share
from mse_lab.trainer_logs.collect import Columns
from mse_lab.trainer_logs.read_logs import Log
from mse_lab.trainer_logs.reward_columns import reward_names, total_rewards

# The least share of completions that stand in runs of whole groups in an ordered log.
IN_ORDER = 0.9


def _largest_mode(sizes: Ints) -> int:
    counts = np.bincount(sizes)
    return int(len(counts) - 1 - np.argmax(counts[::-1]))


@dataclass(frozen=True)
class Groups:
    """N completions with a reward, in K groups."""

    columns: Columns  # The completions.
    reward_N: Floats  # Their rewards, summed over reward functions.
    group_N: Ints  # Numbers of their groups, 0 to K - 1.
    unscored: int  # Number of completions without a reward, which are left out.
    drawn_twice: int  # How often a prompt with k G completions at a step was cut.
    size_in_use: int  # The commonest number of completions drawn, with a reward or not.
    no_rewards: tuple[str, ...] = ()  # Columns of numbers that are no rewards.

    @cached_property
    def size_K(self) -> Ints:
        """Number of completions of each group."""
        return np.bincount(self.group_N)

    @cached_property
    def commonest_size(self) -> int:
        """The commonest number of rewards of a group; of several, the largest."""
        return _largest_mode(self.size_K)

    def _first(self, values_N: Ints) -> Ints:
        _, first = np.unique(self.group_N, return_index=True)
        return values_N[first]

    @cached_property
    def prompt_K(self) -> Ints:
        """Number of each group's prompt, 0 to P - 1."""
        return np.unique(self._first(self.columns.prompt_N), return_inverse=True)[1]

    @cached_property
    def prompt_N(self) -> Ints:
        """Number of each completion's prompt, 0 to P - 1."""
        return self.prompt_K[self.group_N]

    @cached_property
    def step_K(self) -> Ints:
        """Training step of each group."""
        return self._first(self.columns.step_N)

    @cached_property
    def mean_K(self) -> Floats:
        """Mean reward of each group."""
        return np.bincount(self.group_N, weights=self.reward_N) / self.size_K

    @cached_property
    def variance_K(self) -> Floats:
        """Variance of each group's rewards, with n - 1; NaN for a single completion."""
        squares_N = np.square(self.reward_N - self.mean_K[self.group_N])
        sums_K = np.bincount(self.group_N, weights=squares_N)
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

        Where all rewards are equal, all completions are right if the reward is positive.
        """
        least, most = self.range
        if least == most:
            return np.full(len(self.reward_N), most > 0)
        return self.reward_N == most

    @cached_property
    def wrong_N(self) -> Flags:
        """Whether a completion has the smallest reward of the log."""
        least, most = self.range
        return ~self.right_N if least == most else self.reward_N == least

    @cached_property
    def binary(self) -> bool:
        """Whether the log has at most two different rewards."""
        return bool((self.right_N | self.wrong_N).all())

    @cached_property
    def right_K(self) -> Ints:
        """Number of right completions of each group."""
        return np.bincount(self.group_N[self.right_N], minlength=len(self.size_K))

    @cached_property
    def wrong_K(self) -> Ints:
        """Number of wrong completions of each group."""
        return np.bincount(self.group_N[self.wrong_N], minlength=len(self.size_K))

    @cached_property
    def _equal_rewards(self) -> tuple[Ints, Floats]:
        """For each distinct reward of a group: the group, and the reward's count."""
        order = np.lexsort((self.reward_N, self.group_N))
        group, reward = self.group_N[order], self.reward_N[order]
        new = np.r_[True, (np.diff(group) != 0) | (np.diff(reward) != 0)]
        return group[new], np.diff(np.r_[np.flatnonzero(new), len(group)]).astype(float)

    @cached_property
    def zero_variance_K(self) -> Flags:
        """Whether all rewards of a group are equal."""
        return np.bincount(self._equal_rewards[0]) == 1

    def zero_variance_shares(self, group_size: int) -> Floats:
        """Share of each group's subsets of G completions whose rewards are all equal, (K,).

        It is unbiased for the share of zero-variance groups of G: sum_z C(n_z, G) / C(n, G)
        with n_z completions of reward z, for rewards 0 and 1 [C(c, G) + C(n-c, G)] /
        C(n, G). NaN where the group is smaller than G.
        """
        group, counts = self._equal_rewards
        size_K = self.size_K.astype(float)
        large_K = size_K >= group_size
        in_large = large_K[group]
        shares = equal_share(counts[in_large], size_K[group[in_large]], group_size)
        sums_K = np.bincount(group[in_large], weights=shares, minlength=len(size_K))
        return np.where(large_K, sums_K, np.nan)


def _commonest(sizes: Ints) -> int:
    """Find the commonest size of two or more; 0 where there is none."""
    counts = np.bincount(sizes, minlength=2)
    counts[:2] = 0
    return int(np.argmax(counts)) if counts.any() else 0


def _size_of_groups(group_N: Ints) -> int:
    """Find G: the commonest length of a run of completions of one prompt and step.

    Where a step draws every prompt twice, that is half of the prompt's completions. In the
    logs of a trainer that mixes the order of a step, it is their commonest number.
    """
    runs = np.diff(np.flatnonzero(np.diff(group_N, append=-1)), prepend=-1)
    run, number = _commonest(runs), _commonest(np.bincount(group_N))
    if not run or number % run:
        return number
    in_order = runs[runs % run == 0].sum() >= IN_ORDER * len(group_N)
    return run if in_order else number


def _cut_multiples(group_N: Ints, size: int | None) -> tuple[Ints, int]:
    """Cut groups of k G completions, k >= 2, into k each; count how many were cut."""
    size_K = np.bincount(group_N)
    size = size or _size_of_groups(group_N)
    if not size:
        return group_N, 0
    multiple_K = (size_K > size) & (size_K % size == 0)
    rank_N = pd.Series(group_N).groupby(group_N).cumcount().to_numpy()
    part_N = np.where(multiple_K[group_N], rank_N // size, 0)
    parts = int(part_N.max()) + 1 if len(part_N) else 1
    cut_N = np.unique(group_N * parts + part_N, return_inverse=True)[1]
    return cut_N, int(multiple_K.sum())


def make_groups(log: Log, group_size: int | None = None) -> Groups:
    """Put completions into groups, of the commonest size where the log names none."""
    columns, state = log.columns, log.source.state
    group_N, drawn_twice = columns.group_N, 0
    if group_size is not None or not columns.named:
        group_N, drawn_twice = _cut_multiples(group_N, group_size)
    names = reward_names(columns, group_N, state.functions if state else ())
    if not names:
        raise InputError(f"{log.source.name}: no column of rewards; --columns names it")
    no_rewards = tuple(one for one in columns.rewards if one not in names)
    rewards = {name: columns.rewards[name] for name in names}
    reward_N = total_rewards(rewards)
    scored_N = ~np.isnan(reward_N)
    if not scored_N.any():
        raise InputError(f"{', '.join(names)}: no completion has a reward; name others")
    return Groups(
        replace(columns, rewards=rewards).keep(scored_N),
        reward_N[scored_N],
        np.unique(group_N[scored_N], return_inverse=True)[1],
        unscored=int((~scored_N).sum()),
        drawn_twice=drawn_twice,
        size_in_use=_largest_mode(np.unique(group_N, return_counts=True)[1]),
        no_rewards=no_rewards,
    )
