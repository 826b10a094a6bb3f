"""Groups: the completions of one prompt that were drawn together.

A group has one prompt, step and group id, of those that the log gives; one that the user
names by `--columns group=...` has one id, whatever its prompts. TRL's are blocks of its
files (`trl.py`). Where neither an id nor blocks tell, groups are not made up. One that
comes again after another may be two: it is refused, unless the size of groups is given, by
which its completions are cut in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Ints
from mse_lab.errors import InputError, shorten, shown
from mse_lab.logs.find_logs import Log
from mse_lab.logs.forms import is_id
from mse_lab.logs.read_logs import OTHER

_TWO_FILES = (
    "name the files of one training, leave out what repeats another, or join those that "
    "share groups, the rows of a group side by side"
)


def number(table: pd.DataFrame, *keys: str) -> Ints:
    """Number the combinations of columns, from 0 in the order of their first occurrence."""
    return table.groupby(list(keys), sort=False, dropna=False).ngroup().to_numpy()


@dataclass(frozen=True)
class _Groups:
    """Groups of the completions that have the same values of some columns, the keys."""

    log: Log
    table: pd.DataFrame
    keys: Sequence[str]
    group_N: Ints

    @cached_property
    def size_K(self) -> Ints:
        """The sizes."""
        return np.bincount(self.group_N)

    @cached_property
    def others(self) -> dict[str, str]:
        """The ids that are not used: the file's columns, by those of the table."""
        ids = [name for name in self.table if name.startswith(OTHER)]
        return {name: name.removeprefix(OTHER) for name in ids}

    def name(self, group: int) -> str:
        """Name a group in a message."""
        at = int(np.argmax(self.group_N == group))
        row = {key: self.table[key].iloc[at] for key in self.keys}
        by = [key for key in ("prompt", "group") if key in row]
        what = ", ".join(f"{key} {shown(self.log.labels[int(row[key])])}" for key in by)
        return (what or "a file") + (f" at step {row['step']}" if "step" in row else "")

    def refuse(self, odd_K: Flags, why: str, remedy: str) -> None:
        """Refuse a group that may be several, or none."""
        for group in np.flatnonzero(odd_K)[:1]:
            has = f"{self.name(group)} has {self.size_K[group]} completions"
            raise InputError(f"{has}, {why}: {remedy}")

    def parts_K(self, values_N: pd.Series) -> Ints:
        """Count the different values in each group."""
        return values_N.groupby(self.group_N).nunique(dropna=False).to_numpy()

    @property
    def as_they_are(self) -> str:
        """The words by which the groups stay as they are."""
        named = self.log.identity or ("group" if "group" in self.table else "")
        return f"group={self.log.form.columns[named]}" if named else ""


def by(log: Log, table: pd.DataFrame, keys: Sequence[str]) -> _Groups:
    """Take the completions of the same values for a group, of keys that the log has."""
    keys = [key for key in keys if key in table]
    return _Groups(log, table, keys, number(table, *keys))


def refuse_again(groups: _Groups) -> None:
    """Refuse a group, or else a step, that comes again after another."""
    form = groups.log.form
    mixed = (form.mixed or form.blocks) and "step" in groups.table
    codes = number(groups.table, "step") if mixed else groups.group_N
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for at in starts[pd.Series(codes[starts]).duplicated()][:1].tolist():
        what = f"step {groups.table['step'].iloc[at]}" if mixed else groups.name(codes[at])
        cuts = "" if mixed else ", or --group-size G cuts its rows by their order"
        raise InputError(
            f"{groups.log.place(groups.table, at)}: {what} comes again after another: a "
            "file that was appended to, a second epoch, or ids numbered anew? Name what "
            "tells them apart, --columns step=... or group=..., or put what belongs "
            f"together side by side{cuts}"
        )


def _refuse_split(groups: _Groups) -> None:
    """Refuse a group that an unused id splits, unless it only numbers completions."""
    for column, name in groups.others.items():
        count_K = groups.parts_K(groups.table[column])
        groups.refuse(
            (count_K > 1) & (count_K < groups.size_K),
            f"with {count_K.max()} values of {name}",
            f"--columns prompt_id={name} if it identifies a prompt, step={name} if a pass, "
            f"group={name} if a group, whatever its prompts, {groups.as_they_are} if none",
        )


def _refuse_joined(groups: _Groups) -> None:
    """Refuse groups of one, which an id would join, and any that a group's id would."""
    ids = {column: name for column, name in groups.others.items() if is_id(name)}
    alone = groups.size_K.max() == 1
    own = {"group": groups.log.form.columns["group"]} if "group" in groups.table else {}
    for column, name in (ids | own).items():
        joined = by(groups.log, groups.table, [column, "step"])
        one_for_all = column in ids and groups.table[column].nunique() == 1
        finer = (groups.parts_K(pd.Series(joined.group_N)) > 1).any()
        if (alone or (column in ids and "group" in name.lower())) and not (
            one_for_all or finer or len(joined.size_K) == len(groups.size_K)
        ):
            groups.refuse(
                groups.size_K > 0,
                f"and {name} is that of several",
                f"--columns group={name} if it identifies a group, whatever its prompts, "
                f"{groups.as_they_are} if neither",
            )


def _refuse_unlike(groups: _Groups) -> None:
    """Refuse groups of an id that are larger than others, or of a text that are unlike.

    A group may lack the lines that were left out, and the last one what was cut off. A
    text of all completions says nothing.
    """
    size_K, largest, faults = groups.size_K, groups.size_K.max(), groups.log.faults
    remedy = (
        "are these several groups? Name what tells them apart, --columns prompt_id=..., "
        f"group=... or step=..., or {groups.as_they_are} if they are one"
    ) + ("" if groups.log.form.mixed else "; --group-size G cuts by order")
    if groups.log.identity == "prompt_id":
        common = np.argmax(np.bincount(size_K))
        groups.refuse(size_K > common, f"others {common}", remedy)
        return
    alone = len(groups.table) > 1 and groups.table["prompt"].nunique() == 1
    groups.refuse((size_K > 0) & alone, "and there is no other prompt", remedy)
    short_K = largest - size_K
    if faults.early:  # In files of mixed order any group of the last step.
        mixed = groups.log.form.mixed and "step" in groups.table
        last = groups.table["step"].eq(groups.table["step"].iloc[-1]) if mixed else [-1]
        short_K[groups.group_N[last]] = 0
    unlike_K = (size_K == largest) & (short_K.sum() > len(faults.damaged))
    groups.refuse(unlike_K, f"others {size_K[np.argmax(short_K)]}", remedy)


def _refuse_repeats(groups: _Groups) -> None:
    """Refuse a group of an id that is larger than others by rows that repeat others."""
    if "content" in groups.table:
        again_N = groups.table.drop(columns=["file", "row"]).duplicated()
        larger_K = groups.size_K > np.argmax(np.bincount(groups.size_K))
        again_K = np.bincount(groups.group_N, again_N)
        larger_K |= (2 * again_K == groups.size_K).all()
        groups.refuse(
            larger_K & (again_K > 0),
            "some of them the same: of a file that was appended to",
            "leave out what repeats another, or --columns group="
            f"{groups.log.form.columns['group']} if they are one",
        )


def _tells_groups(table: pd.DataFrame) -> bool:
    """Whether there are groups by their own column; one for several prompts tells none."""
    ids = [name for name in ("group", "prompt") if name in table]
    return "group" in ids and [n for n in ids if table[n].nunique() > 1] != ["prompt"]


def _cut(groups: _Groups, size: int) -> _Groups:
    """Cut groups into blocks of a size, in the order of their completions."""
    odd_K = groups.size_K % size != 0
    if groups.log.faults.damaged or groups.log.faults.early:
        odd_K &= groups.size_K > size
    for group in np.flatnonzero(odd_K)[:1]:
        raise InputError(
            f"--group-size {size}: {groups.name(group)} has {groups.size_K[group]} "
            "completions, which are no whole groups"
        )
    rank_N = pd.Series(groups.group_N).groupby(groups.group_N).cumcount()
    pairs = pd.DataFrame({"group": groups.group_N, "rank": rank_N // size})
    return replace(groups, group_N=number(pairs, "group", "rank"))


def groups_by_id(log: Log, table: pd.DataFrame, group_size: int | None) -> Ints:
    """Put completions into groups by what the log gives of a prompt, step and group."""
    by_user = "group" in log.given.columns
    named = log.identity or "group" in table
    if not named and group_size is None:
        raise InputError(
            f"which of the columns {shorten(', '.join(log.form.types), 200)} identifies "
            "a prompt or group? Name one, --columns prompt_id=... or group=...; or give "
            "--group-size G where groups are blocks of lines"
        )
    of_names = ("step", "group") if by_user else ("prompt", "step", "group")
    groups = by(log, table, of_names if named else ("file", "step"))
    groups.refuse(groups.parts_K(table["file"]) > 1, "in two files", _TWO_FILES)
    if group_size is not None:
        alone = groups.size_K.max() == 1 < group_size and "prompt" in groups.keys
        if log.form.mixed:
            groups.refuse(
                alone | (groups.size_K > group_size),
                f"not {group_size}, and the order of these files says nothing",
                "--columns group=... names what identifies a group",
            )
        elif alone:  # Each has a prompt of its own: neighbours of a step are a group.
            groups = by(log, table, ["file", "step"])
            refuse_again(groups)
        groups = _cut(groups, group_size)
    else:
        refuse_again(groups)
    _refuse_split(groups)
    if group_size is None and not by_user:
        (_refuse_repeats if _tells_groups(table) else _refuse_unlike)(groups)
        _refuse_joined(groups)
    return groups.group_N
