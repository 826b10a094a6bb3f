"""Groups: the completions of one prompt that were drawn together, and their rewards.

A group has one prompt, step and group id, of those that the log gives. TRL's are blocks of
its files (`trl.py`). Where neither an id nor blocks tell, groups are not made up: a text
that several prompts of a step share, or an id beside the ones that are used, is refused
unless the user says what identifies a group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import InputError, shorten, shown
from mse_lab.logs import trl
from mse_lab.logs.collect import OTHER
from mse_lab.logs.find_logs import LeftOut
from mse_lab.logs.forms import refuse_total
from mse_lab.logs.read_logs import Log
from mse_lab.mse.zero_variance import equal_share
from mse_lab.records.records import PART

# Rewards this near, as floats of 32 bits, are equal: as trainers' isclose of a group's
# standard deviation and zero.
REWARD_ROUNDING = 1e-8


def _largest_mode(sizes: Ints) -> int:
    counts = np.bincount(sizes)
    return int(len(counts) - 1 - np.argmax(counts[::-1]))


@dataclass(frozen=True)
class RewardGroups:
    """N completions with a reward, in K groups of P prompts."""

    completions: pd.DataFrame  # Their numbers, a row each (`collect.py`).
    prompts: Sequence[str]  # A label of each prompt, by its number in the table.
    reward_N: Floats  # Their rewards, summed over reward functions.
    group_N: Ints  # Numbers of their groups, 0 to K - 1.
    size_in_use: int  # The commonest number of completions drawn, with a reward or not.
    rewards: tuple[str, ...] = ()  # The reward functions.
    left_out: tuple[LeftOut, ...] = ()  # What is in the log and not here.
    cautions: tuple[str, ...] = ()  # What the reading rests on, a sentence each.

    def known(self, name: str) -> Floats | None:
        """Give a number of each completion, (N,); None where some completion lacks it."""
        column = self.completions.get(name)
        return None if column is None or column.isna().any() else column.to_numpy()

    @cached_property
    def size_K(self) -> Ints:
        """Number of completions of each group."""
        return np.bincount(self.group_N)

    @cached_property
    def commonest_size(self) -> int:
        """The commonest number of rewards of a group; of several, the largest."""
        return _largest_mode(self.size_K)

    @cached_property
    def _first_K(self) -> Ints:
        return np.unique(self.group_N, return_index=True)[1]

    @cached_property
    def prompt_K(self) -> Ints:
        """Number of each group's prompt, 0 to P - 1."""
        prompt_K = self.completions["prompt"].to_numpy()[self._first_K]
        return np.unique(prompt_K, return_inverse=True)[1]

    @cached_property
    def prompt_N(self) -> Ints:
        """Number of each completion's prompt, 0 to P - 1."""
        return self.prompt_K[self.group_N]

    @cached_property
    def step_K(self) -> Ints:
        """Training step of each group; -1 where the log has none."""
        if "step" not in self.completions:
            return np.full(len(self.size_K), -1)
        return self.completions["step"].to_numpy()[self._first_K]

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
    def _levels_N(self) -> Floats:
        """Rewards as trainers compare them, floats of 32 bits."""
        return self.reward_N.astype(np.float32).astype(float)

    @cached_property
    def _one_level(self) -> bool:
        return bool(np.ptp(self._levels_N) <= REWARD_ROUNDING)

    @cached_property
    def right_N(self) -> Flags:
        """Whether a completion has the largest reward of the log.

        Where all rewards are equal, all completions are right if the reward is positive.
        """
        if self._one_level:
            return np.full(len(self.reward_N), self.range[1] > 0)
        return np.asarray(self._levels_N >= self._levels_N.max() - REWARD_ROUNDING)

    @cached_property
    def wrong_N(self) -> Flags:
        """Whether a completion has the smallest reward of the log."""
        if self._one_level:
            return ~self.right_N
        return np.asarray(self._levels_N <= self._levels_N.min() + REWARD_ROUNDING)

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
        order = np.lexsort((self._levels_N, self.group_N))
        group, levels = self.group_N[order], self._levels_N[order]
        del order  # Of a long log each array takes much.
        new = np.r_[True, (group[1:] != group[:-1]) | (np.diff(levels) > REWARD_ROUNDING)]
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


def _number(*keys: Ints) -> Ints:
    """Number the combinations of keys, from 0 in the order of their first occurrence."""
    codes = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        values = pd.factorize(key)[0]
        codes *= int(values.max(initial=0)) + 1
        codes += values
        codes = pd.factorize(codes)[0]
    return codes


# Of which groups (K,) a reading is doubtful, why, and what to do about it.
_Doubt = tuple[Flags, str, str]

_IN_TWO_FILES = (
    "name the files of one training, leave out what repeats another, or join those that "
    "share groups (cat a.jsonl b.jsonl > c.jsonl)"
)


class _ById(NamedTuple):
    """Groups of the completions of one prompt, step and group id."""

    table: pd.DataFrame
    log: Log
    group_N: Ints
    size_K: Ints

    @property
    def _text(self) -> str:
        """The column that names the prompt."""
        ours = "prompt_id" if "prompt_id" in self.log.identities else "prompt"
        return self.log.source.form.columns[ours]

    def _name(self, group: int) -> str:
        """Name a group in a message."""
        row = self.table.iloc[int(np.argmax(self.group_N == group))]
        prompt = self.log.prompts[int(row["prompt"])] if "prompt" in row else ""
        what = f"prompt {shown(prompt)}" if "prompt" in row else "a file"
        step = f" at step {row['step']:.0f}" if "step" in row else ""
        return f"{what}{step} has {self.size_K[group]} completions"

    def cut(self, size: int) -> Ints:
        """Cut groups into blocks of a size, in the order of their completions."""
        for group in np.flatnonzero((self.size_K > size) & (self.size_K % size != 0))[:1]:
            raise InputError(
                f"--group-size {size}: {self._name(group)}, which are no whole groups"
            )
        rank_N = pd.Series(self.group_N).groupby(self.group_N).cumcount().to_numpy()
        return _number(self.group_N, rank_N // size)

    def refuse(self, doubts: Iterable[_Doubt]) -> None:
        """Refuse a group that may be several, or none."""
        for odd_K, why, remedy in doubts:
            for group in np.flatnonzero(odd_K)[:1]:
                raise InputError(f"{self._name(group)}, {why}: {remedy}")

    def _parts_K(self, column: str) -> Ints:
        """Count the different values of a column in each group."""
        parts_N = _number(self.group_N, self.table[column].to_numpy())
        first = np.unique(parts_N, return_index=True)[1]
        return np.bincount(self.group_N[first], minlength=len(self.size_K))

    def in_two_files(self) -> Iterator[_Doubt]:
        """Doubt a group that lies in two files."""
        yield self._parts_K("file") > 1, "in two files", _IN_TWO_FILES

    def of_group_ids(self) -> Iterator[_Doubt]:
        """Doubt a group id that numbers completions: no two of a prompt share one."""
        keys = [key for key in ("prompt", "step") if key in self.table]
        if keys and _largest_mode(self.size_K) == 1:
            column = self.log.source.form.columns["group"]
            again_N = self.table.duplicated(keys)
            yield (
                np.bincount(self.group_N, weights=again_N) > 0,
                f"and no two of a prompt share a {column}, so it identifies no group",
                f"name what does, --columns group=..., or group={self._text} for those "
                "of a prompt and step",
            )

    def of_prompts(self) -> Iterator[_Doubt]:
        """Doubt groups of a prompt's id or text that may be several.

        An id that is not used tells them apart, unless it only numbers completions. A
        prompt that comes in several blocks may be drawn again, where no step tells; in a
        mixed order some block is of a single completion.
        """
        for column in (name for name in self.table if name.startswith(OTHER)):
            count_K, name = self._parts_K(column), column.removeprefix(OTHER)
            yield (
                (count_K > 1) & (count_K < self.size_K),
                f"with {count_K.max()} values of {name}",
                f"--columns prompt_id={name} if it identifies a prompt, group={name} if a "
                f"group, group={self._text} if neither",
            )
        remedy = (
            "are these several groups? Name what tells them apart, --columns "
            "prompt_id=..., group=... or step=..., or "
            f"group={self._text} if they are one; --group-size G cuts by order"
        )
        starts = np.flatnonzero(np.diff(self.group_N, prepend=-1))
        lengths = np.diff(np.append(starts, len(self.group_N)))
        if "step" not in self.table and lengths.min() > 1:
            yield np.bincount(self.group_N[starts]) > 1, "in several blocks", remedy
        yield from ((*unlike, remedy) for unlike in self._unlike_others())

    def _unlike_others(self) -> Iterator[tuple[Flags, str]]:
        """Find groups of an id that are larger than others, or of a text that are unlike.

        A group may lack the lines that were left out, and the last one what was cut off. A
        text of all completions says nothing.
        """
        common, largest = np.argmax(np.bincount(self.size_K)), self.size_K.max()
        if "prompt_id" in self.log.identities:
            yield self.size_K > common, f"others {common}"
            return
        if len(self.table) > 1 and self.table["prompt"].nunique() == 1:
            yield self.size_K > 0, "and there is no other prompt"
        short_K = largest - self.size_K
        if self.log.cut_off:
            short_K[self.group_N[-1]] = 0
        if short_K.sum() > self.log.lost:
            yield self.size_K == largest, f"others {self.size_K[np.argmax(short_K)]}"


def _identify(log: Log, table: pd.DataFrame, group_size: int | None) -> Ints:
    """Put completions into groups by what the log gives of a prompt, step and group."""
    named = {"prompt_id", "prompt", "group"} & log.identities
    if not named and group_size is None:
        raise InputError(
            f"which of the columns {shorten(', '.join(log.source.names), 200)} identifies "
            "a prompt or group? Name one, --columns prompt_id=... or group=...; or give "
            "--group-size G where groups are blocks of lines"
        )
    keys = ("prompt", "step", "group") if named else ("file", "step")
    group_N = _number(*(table[key].to_numpy() for key in keys if key in table))
    by_id = _ById(table, log, group_N, np.bincount(group_N))
    by_id.refuse(by_id.in_two_files())
    if group_size is not None:
        return by_id.cut(group_size)
    by_id.refuse(by_id.of_group_ids() if "group" in named else by_id.of_prompts())
    return group_N


def _read_trl(log: Log, group_size: int | None) -> RewardGroups:
    """Read TRL's blocks, and which of its columns are rewards."""
    source, form = log.source, log.source.form
    first = next(iter(source.files), None)
    state = trl.find_state(first.parent) if first is not None else None
    table, left_out = trl.leave_out(log.completions, state, asked=source.asked)
    named = bool({"reward", "rewards"} & form.given)
    cautions = [] if state or source.asked else [trl.NO_STATE]
    if "reward" in form.columns:
        rewards: tuple[str, ...] = ()
        reward_N = table["reward"].to_numpy()
    else:
        rewards = trl.rewards_of(table, state.functions if state else (), named=named)
        reward_N = _add_up(_parts(table, rewards), form.weights)
    if "group" in log.identities:
        group_N = _identify(log, table, group_size)
    else:
        size, fits = trl.block_length(table, reward_N, group_size, named=named)
        group_N = np.arange(len(table)) // size
        cautions += [] if fits else [trl.NO_FIT]
    return _scored(log, table, reward_N, group_N, rewards, left_out, cautions)


def _read_rows(log: Log, group_size: int | None) -> RewardGroups:
    table, form = log.completions, log.source.form
    names = tuple(name.removeprefix(PART) for name in table if name.startswith(PART))
    parts = _parts(table, names)
    if "reward" in table:
        reward_N = table["reward"].to_numpy()
    else:
        if "reward" not in form.given:
            refuse_total(parts)
            _refuse_sum(parts)
        reward_N = _add_up(parts, form.weights)
    return _scored(log, table, reward_N, _identify(log, table, group_size), names)


def make_groups(log: Log, group_size: int | None = None) -> RewardGroups:
    """Put completions into groups, and give each its reward."""
    read = _read_trl if log.source.form.name == "TRL" else _read_rows
    return read(log, group_size)


def _scored(
    log: Log,
    table: pd.DataFrame,
    reward_N: Floats,
    group_N: Ints,
    rewards: tuple[str, ...],
    left_out: Sequence[LeftOut] = (),
    cautions: Sequence[str] = (),
) -> RewardGroups:
    """Leave out the completions without a reward."""
    scored_N = ~np.isnan(reward_N)
    if not scored_N.any():
        raise InputError(f"{log.source.name}: no completion has a reward; name others")
    prompts = log.prompts
    if "prompt" not in table:  # Each group is taken for a prompt.
        table = table.assign(prompt=group_N)
        prompts = [f"group {number}" for number in range(int(group_N.max()) + 1)]
    size_in_use = _largest_mode(np.bincount(group_N))
    if not scored_N.all():
        without = int((~scored_N).sum())
        left_out = [*left_out, LeftOut(without, "completions have no reward: left out")]
        table, reward_N = table[scored_N], reward_N[scored_N]
        group_N = np.unique(group_N[scored_N], return_inverse=True)[1]
    return RewardGroups(
        table,
        prompts,
        reward_N,
        group_N,
        size_in_use=size_in_use,
        rewards=rewards,
        left_out=tuple(left_out),
        cautions=tuple(cautions),
    )


def _parts(table: pd.DataFrame, names: Sequence[str]) -> dict[str, Floats]:
    return {name: table[PART + name].to_numpy(dtype=float) for name in names}


def _add_up(parts: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    """Add up the rewards of functions, by their weights; NaN where none gave one."""
    weighted = np.stack([values * weights.get(name, 1.0) for name, values in parts.items()])
    return np.where(np.isnan(weighted).all(axis=0), np.nan, np.nansum(weighted, axis=0))


def _refuse_sum(parts: Mapping[str, Floats]) -> None:
    """Refuse to add up parts of which one is the sum of the others in every row."""
    total_N = _add_up(parts, {})
    for name, values_N in parts.items() if len(parts) > 2 else ():
        if (
            np.allclose(2 * values_N, total_N, rtol=1e-6, atol=REWARD_ROUNDING)
            and values_N.any()
        ):
            raise InputError(
                f"rewards {shorten(', '.join(parts))}: {name} is the sum of the others; "
                f"name the one that counts, --columns reward=rewards.{name}, or those that "
                "add up"
            )
