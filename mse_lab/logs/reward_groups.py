"""Rewards in groups: what each completion, each group and each prompt of a log got.

`completions` is a row for each of N completions with a reward: the columns of
`read_logs.py`, `prompt` and `group` numbered from 0, and

    reward          the total, summed over reward functions by their weights
    right, wrong    whether it is the largest, the least reward of the log

`groups` is a row for each of K groups: its `prompt`, `step` (-1 where the log has none),
`size`, the `mean` and `variance` (with n - 1) of its rewards, how many are `right` and
`wrong`, and whether all are equal, `zero_variance`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import InputError, one_line, shorten
from mse_lab.logs import trl
from mse_lab.logs.find_logs import LeftOut, Log
from mse_lab.logs.groups import by, groups_by_id, number, refuse_again
from mse_lab.mse.zero_variance import equal_share
from mse_lab.records.records import PART
from mse_lab.records.rows import MOST_DAMAGED

# Rewards this near, as floats of 32 bits, are equal: as trainers' isclose of a group's
# standard deviation and zero.
REWARD_ROUNDING = 1e-8

# What a part of several rewards is called that is their total.
_TOTALS = {"total", "reward", "total_reward", "reward_total", "sum", "score", "overall"}

UNLIKE_PROMPTS = "Within groups prompts differ: each group is taken for one prompt."
APART = "Rows of a group lie apart: --group-size takes a prompt's together, by order."


@dataclass(frozen=True)
class RewardGroups:
    """The completions of a log that have a reward, in groups."""

    log: Log
    completions: pd.DataFrame
    groups: pd.DataFrame
    prompts: Sequence[str]  # A label of each prompt, by its number.
    counts: pd.DataFrame  # The `count` of each reward that a `group` has.
    size_in_use: int  # The commonest number of completions drawn, with a reward or not.
    parts: Sequence[str]  # The columns of the parts of the reward.
    left_out: Sequence[LeftOut]  # What of the log is not here.
    cautions: Sequence[str]  # What the reading rests on, a sentence each.

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest reward."""
        reward_N = self.completions["reward"].to_numpy()
        return float(reward_N.min()), float(reward_N.max())

    @property
    def binary(self) -> bool:
        """Whether the log has at most two different rewards."""
        return bool((self.completions["right"] | self.completions["wrong"]).all())

    @property
    def commonest_size(self) -> int:
        """The commonest number of rewards of a group; of several, the largest."""
        return int(self.groups["size"].mode().max())

    def known(self, name: str) -> Floats | None:
        """Give a number of each completion, (N,); None where some completion lacks it."""
        column = self.completions.get(name)
        return None if column is None or column.isna().any() else column.to_numpy()

    @property
    def cut_N(self) -> Flags | None:
        """Whether the limit cut each completion, (N,)."""
        cut_N = self.known("truncated")
        return None if cut_N is None else cut_N == 1

    @property
    def lengths(self) -> tuple[str, Floats] | None:
        """The lengths of completions, (N,), and their unit, tokens or else characters."""
        for unit, name in (("tokens", "length"), ("characters", "characters")):
            if (lengths_N := self.known(name)) is not None:
                return unit, lengths_N
        return None

    def zero_variance_shares(self, group_size: int) -> Floats:
        """Share of each group's subsets of G completions whose rewards are all equal, (K,).

        It is unbiased for the share of zero-variance groups of G: sum_z C(n_z, G) / C(n, G)
        with n_z completions of reward z, for rewards 0 and 1 [C(c, G) + C(n-c, G)] /
        C(n, G). NaN where the group is smaller than G.
        """
        size_K = self.groups["size"].to_numpy(dtype=float)
        group, count = self.counts["group"].to_numpy(), self.counts["count"].to_numpy()
        large_K = size_K >= group_size
        in_large = large_K[group]
        shares = equal_share(count[in_large], size_K[group[in_large]], group_size)
        sums_K = np.bincount(group[in_large], weights=shares, minlength=len(size_K))
        return np.where(large_K, sums_K, np.nan)


def count_levels(group_N: Ints, reward_N: Floats) -> pd.DataFrame:
    """Count each distinct reward of a group, compared as trainers do, floats of 32 bits."""
    level_N = reward_N.astype(np.float32).astype(float)
    order = np.lexsort((level_N, group_N))
    group, levels = group_N[order], level_N[order]
    del order  # Of a long log each array takes much.
    new = np.r_[True, (group[1:] != group[:-1]) | (np.diff(levels) > REWARD_ROUNDING)]
    counts = np.diff(np.r_[np.flatnonzero(new), len(group)]).astype(float)
    return pd.DataFrame({"group": group[new], "count": counts})


def _extremes(reward_N: Floats) -> dict[str, object]:
    """Say which completions have the largest and the least reward of the log.

    Where all rewards are equal, all are right if the reward is positive, else wrong.
    """
    level_N = reward_N.astype(np.float32).astype(float)
    if np.ptp(level_N) <= REWARD_ROUNDING:
        right_N = np.full(len(reward_N), reward_N.min() > 0)
        return {"right": right_N, "wrong": ~right_N}
    return {
        "right": level_N >= level_N.max() - REWARD_ROUNDING,
        "wrong": level_N <= level_N.min() + REWARD_ROUNDING,
    }


def _tabulate(completions: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Describe each group."""
    table = completions if "step" in completions else completions.assign(step=-1)
    group_N, reward_N = (table[name].to_numpy() for name in ("group", "reward"))
    groups = table.groupby("group").agg(
        prompt=("prompt", "first"),
        step=("step", "first"),
        size=("reward", "size"),
        right=("right", "sum"),
        wrong=("wrong", "sum"),
    )
    mean_K = np.bincount(group_N, weights=reward_N) / groups["size"].to_numpy()
    squares_K = np.bincount(group_N, weights=np.square(reward_N - mean_K[group_N]))
    variance = squares_K / (groups["size"] - 1).where(groups["size"] > 1)
    silent_K = np.bincount(counts["group"]) == 1
    return groups.assign(mean=mean_K, variance=variance, zero_variance=silent_K)


def make_groups(log: Log, group_size: int | None = None) -> RewardGroups:
    """Put completions into groups, and give each its reward."""
    table, left_out, cautions = log.completions, [*log.left_out], list[str]()
    if log.form.blocks:
        refuse_again(by(log, table, ["step"]))
        table, more = trl.leave_out(table, log.state, asked=log.asked)
        left_out += more
    table, parts = _with_reward(log, table)
    if "reward" not in log.completions and len(parts) > 1:
        weighted = ", by their weights" if log.given.weights else ""
        summands = shorten(" + ".join(map(one_line, parts)), 200)
        cautions.append(f"The reward is {summands}{weighted}.")
    if log.form.blocks and not (log.state or log.asked):
        cautions.append(trl.NO_STATE)
    if log.form.blocks and "group" not in table:
        size, fits = trl.block_length(table, group_size, named=log.given.rewards)
        table = table.assign(group=np.arange(len(table)) // size)
        cautions += [] if fits else [trl.NO_FIT]
    else:
        group_N = groups_by_id(log, table, group_size)
        apart = np.count_nonzero(np.diff(group_N)) > group_N.max()
        cautions += [APART] if group_size and apart else []
        table = table.assign(group=group_N)
    size_in_use = int(table["group"].value_counts().mode().max())
    alike = "prompt" in table and table.groupby("group")["prompt"].nunique().max() == 1
    if not alike:  # Each group is taken for a prompt.
        cautions += [UNLIKE_PROMPTS] if "prompt" in table else []
        table = table.assign(prompt=table["group"])
    if table["reward"].isna().any():
        left_out.append(_without_reward(log, table))
        table = table[table["reward"].notna()].reset_index(drop=True)
    names = table["prompt"].unique().tolist()
    prompts = [log.labels[one] if alike else f"group {one}" for one in names]
    numbered = {name: number(table, name) for name in ("prompt", "group")}
    table = table.assign(**numbered, **_extremes(table["reward"].to_numpy()))
    counts = count_levels(table["group"].to_numpy(), table["reward"].to_numpy())
    groups = _tabulate(table, counts)
    return RewardGroups(
        *(log, table, groups, prompts, counts, size_in_use, parts, left_out, cautions)
    )


def _with_reward(log: Log, table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Give each completion its reward, the sum of its parts if no total; name the parts."""
    parts = tuple(name.removeprefix(PART) for name in table if name.startswith(PART))
    if "reward" in table:
        return table, parts
    if log.form.blocks and not log.given.rewards:
        parts = trl.rewards_of(table, parts, log.state.functions if log.state else ())
    values = {name: table[PART + name].to_numpy(dtype=float) for name in parts}
    if not (log.form.blocks or log.given.weights):
        _refuse_total(values)
    return table.assign(reward=_add_up(values, log.given.weights)), parts


def _add_up(parts: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    """Add up the rewards of functions, by their weights; NaN where none gave one."""
    weighted = np.stack([values * weights.get(name, 1.0) for name, values in parts.items()])
    return np.where(np.isnan(weighted).all(axis=0), np.nan, np.nansum(weighted, axis=0))


def _refuse_total(parts: Mapping[str, Floats]) -> None:
    """Refuse to add up parts of which one is their total, by its name or in every row."""
    sum_N = _add_up(parts, {})
    for name, values_N in parts.items() if len(parts) > 1 else ():
        near = np.allclose(2 * values_N, sum_N, rtol=1e-6, atol=REWARD_ROUNDING)
        if name.lower() in _TOTALS or (near and values_N.any() and len(parts) > 2):
            raise InputError(
                f"rewards {shorten(', '.join(parts))}: is {name} their total? Name the one "
                f"that counts, --columns reward=rewards.{name}, or those that add up, "
                "reward=A,reward=B"
            )


def _without_reward(log: Log, table: pd.DataFrame) -> LeftOut:
    """Count the completions without a reward; refuse many, as damaged lines are."""
    missing = int(table["reward"].isna().sum())
    if missing == len(table):
        raise InputError(f"{log.name}: no completion has a reward; name others")
    if missing > max(1, MOST_DAMAGED * len(table)) and not log.faults.partial:
        raise InputError(
            f"{log.name}: {missing} of {len(table)} completions have no reward, more than "
            f"{MOST_DAMAGED:.0%}, and a group is judged by what is left; give each one, or "
            "leave them out by --partial (partial=True)"
        )
    return LeftOut(missing, "completions have no reward: left out")
