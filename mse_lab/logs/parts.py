"""Parts of a reward: what each contributes to the groups that have a gradient.

A reward may be a sum, `right + brief`, of which one part says whether a completion is
right, the outcome. Where a group's outcomes are all equal the others still vary, and
advantages divided by the group's standard deviation make such a group count as much as any.
With A = r - mean of its group, or A / (std of its group + 1e-4) as TRL has it by default,
the share of a set of groups in the squared advantages is

    sum over these groups of sum A^2 / sum over all groups of sum A^2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, divide
from mse_lab.errors import InputError, nearest, one_line
from mse_lab.logs.reward_groups import REWARD_ROUNDING, RewardGroups
from mse_lab.records.records import PART

STD_FLOOR = 1e-4  # TRL's, added to the standard deviation.


@dataclass(frozen=True)
class RewardPart:
    """What a part of the reward contributes; shares of groups of two or more.

    Where a part is missing in a completion of a group, whether it varies is not known.
    """

    name: str
    mean: float  # Over the completions that have it.
    varies: float  # Share of the groups in which it varies, of those that have it.
    # Share of the squared advantages of the groups that have the outcome: of those in which
    # it varies and, of another than the outcome, the outcome does not.
    share_std: float  # Divided by the group's standard deviation.
    share_plain: float  # Not divided.


@dataclass(frozen=True)
class RewardParts:
    """The parts, the outcome first, and the groups in which only others vary."""

    parts: Sequence[RewardPart]
    told: bool  # Whether the outcome was named, by the user or the form.
    alone: RewardPart  # The groups whose outcomes are equal, named by what varies there.
    without: int  # Groups that have no outcome; of these nothing else is said.

    @property
    def outcome(self) -> str:
        """The name of the first part."""
        return self.parts[0].name


def _choose(values: dict[str, Floats], has: dict[str, Flags], given: str | None) -> str:
    """Choose the outcome: the one that is given, else that of the fewest values.

    Without one it is a part that the most groups have.
    """
    if given is not None:
        if given in has:
            return given
        remedy = nearest(str(given), [*has]) if has else "these logs have no parts"
        if given in values:
            remedy = "no group of several has it in each of its completions"
        raise InputError(f"outcome = {one_line(str(given))}: {remedy}")
    most = max(flags_K.sum() for flags_K in has.values())
    common = [name for name, flags_K in has.items() if flags_K.sum() == most]
    counts = {name: pd.Series(values[name]).nunique() for name in common}
    varied = {name: count for name, count in counts.items() if count > 1} or counts
    return min(varied, key=varied.__getitem__)


def split_reward(groups: RewardGroups, outcome: str | None) -> RewardParts | None:
    """Say what each part of the reward contributes; None where there are none.

    The `outcome` is the part that says whether a completion is right, as the user names it;
    by default that of the log's form, where it is among the parts. A part that no group has
    in each of its completions is left out.
    """
    table, several_K = groups.completions, groups.groups["size"].to_numpy() > 1
    values = {name: table[PART + name].to_numpy(dtype=float) for name in groups.parts}
    by_group = pd.DataFrame(values, table.index, dtype=np.float32).groupby(table["group"])
    known = by_group.count().eq(groups.groups["size"].to_numpy(), axis=0)
    every = {name: known[name].to_numpy() & several_K for name in values}
    has = {name: flags_K for name, flags_K in every.items() if flags_K.any()}
    same = [
        np.allclose(values[name], table["reward"], atol=REWARD_ROUNDING) for name in has
    ]
    if outcome is None and (not has or same == [True]):
        return None
    usual = groups.log.form.outcome
    told = outcome if outcome is not None else usual if usual in has else None
    first = _choose(values, has, told)
    judged_K, spread = has[first], by_group.max() - by_group.min()
    varies = {name: (spread[name] > REWARD_ROUNDING).to_numpy() & has[name] for name in has}
    flat = groups.groups["zero_variance"]
    square_K = groups.groups["variance"].mask(flat).fillna(0.0).to_numpy()
    scaled_K = square_K / np.square(np.sqrt(square_K) + STD_FLOOR)
    degrees_K = groups.groups["size"].to_numpy() - 1.0

    def describe(name: str, mean: float, varying: float, flags_K: Flags) -> RewardPart:
        sums = ((part_K * degrees_K)[judged_K] for part_K in (scaled_K, square_K))
        shares = (float(divide(one[flags_K[judged_K]].sum(), one.sum())) for one in sums)
        return RewardPart(name, mean, varying, *shares)

    alone_K = ~varies[first] & judged_K & ~flat.to_numpy()
    names = [first, *(name for name in has if name != first)]
    others = [name for name in names[1:] if (varies[name] & alone_K).any()]
    parts = [
        describe(
            *(name, float(np.nanmean(values[name]))),
            float(varies[name].sum() / has[name].sum()),
            varies[name] if name == first else varies[name] & ~varies[first],
        )
        for name in names
    ]
    what = others[0] if len(others) == 1 else "the rest"
    alone = describe(what, np.nan, float(alone_K.sum() / judged_K.sum()), alone_K)
    without = int((several_K & ~judged_K).sum())
    return RewardParts(parts, told is not None, alone, without)
