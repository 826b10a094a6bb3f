"""Groups: the completions of one prompt that were drawn together.

A group has one prompt, step and group id, of those that the log gives; one that the user
names by `--columns group=...` has one id, whatever its prompts. TRL's are blocks of its
files (`trl.py`). Where neither an id nor blocks tell, groups are not made up. One that
comes again after another may be two: it is refused, unless the size of groups is given, by
which its completions are cut in their order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Ints
from mse_lab.errors import InputError, shorten, shown
from mse_lab.logs.read_logs import OTHER, Log

_IN_TWO_FILES = (
    "name the files of one training, leave out what repeats another, or join those that "
    "share groups (cat a.jsonl b.jsonl > c.jsonl)"
)


def largest_mode(sizes: Ints) -> int:
    """The commonest size; of several, the largest."""
    counts = np.bincount(sizes)
    return int(len(counts) - 1 - np.argmax(counts[::-1]))


def number(table: pd.DataFrame, *keys: str) -> Ints:
    """Number the combinations of columns, from 0 in the order of their first occurrence."""
    return table.groupby(list(keys), sort=False, dropna=False).ngroup().to_numpy()


def _runs(number_N: Ints) -> Ints:
    """Find where another number begins."""
    return np.flatnonzero(np.diff(number_N, prepend=-1))


# Of which groups (K,) a reading is doubtful, why, and what to do about it.
_Doubt = tuple[Flags, str, str]


@dataclass(frozen=True)
class _ById:
    """Groups of the completions of one prompt, step and group id."""

    log: Log
    table: pd.DataFrame
    keys: Sequence[str]
    group_N: Ints
    size_K: Ints

    def column(self, name: str) -> str:
        """Give the file's column of a name."""
        return str(self.log.source.form.columns[name])

    @property
    def identity(self) -> str:
        """The name that names the prompt."""
        return "prompt_id" if "prompt_id" in self.log.identities else "prompt"

    @property
    def text(self) -> str:
        """The file's column that names the prompt."""
        return self.column(self.identity)

    def name(self, group: int) -> str:
        """Name a group in a message."""
        at = int(np.argmax(self.group_N == group))
        row = {key: self.table[key].iloc[at] for key in self.keys}
        by = [key for key in ("prompt", "group") if key in row]
        what = ", ".join(f"{key} {shown(self.log.labels[int(row[key])])}" for key in by)
        step = f" at step {row['step']}" if "step" in row else ""
        return f"{what or 'a file'}{step} has {self.size_K[group]} completions"

    def refuse(self, doubts: Iterator[_Doubt]) -> None:
        """Refuse a group that may be several, or none."""
        for odd_K, why, remedy in doubts:
            for group in np.flatnonzero(odd_K)[:1]:
                raise InputError(f"{self.name(group)}, {why}: {remedy}")

    def refuse_again(self) -> None:
        """Refuse a group, or else a step, that comes again after another."""
        mixed = self.log.source.form.mixed and "step" in self.table
        codes = number(self.table, "step") if mixed else self.group_N
        starts, seen = _runs(codes), set[int]()
        for at in starts.tolist():
            if codes[at] in seen:
                what = self.name(int(codes[at])).partition(" has")[0]
                what = f"step {self.table['step'].iloc[at]}" if mixed else what
                size = "" if mixed else ", or --group-size G cuts its rows by their order"
                where = self.log.source.place(self.table, at)
                raise InputError(
                    f"{where}: {what} comes again after another: a file that "
                    "was appended to, a second epoch, or ids numbered anew? Name what "
                    "tells them apart, --columns step=... or group=..., or put what "
                    f"belongs together side by side{size}"
                )
            seen.add(int(codes[at]))

    def parts_K(self, column: str) -> Ints:
        """Count the different values of a column in each group."""
        pairs = pd.DataFrame({"group": self.group_N, "part": self.table[column].to_numpy()})
        return np.bincount(pairs.drop_duplicates()["group"], minlength=len(self.size_K))

    def in_two_files(self) -> Iterator[_Doubt]:
        """Doubt a group that lies in two files."""
        yield self.parts_K("file") > 1, "in two files", _IN_TWO_FILES

    def _others(self) -> list[str]:
        return [name for name in self.table if name.startswith(OTHER)]

    def split_by_ids(self) -> Iterator[_Doubt]:
        """Doubt a group that an unused id splits, unless it only numbers completions."""
        for column in self._others():
            count_K, name = self.parts_K(column), column.removeprefix(OTHER)
            yield (
                (count_K > 1) & (count_K < self.size_K),
                f"with {count_K.max()} values of {name}",
                f"--columns prompt_id={name} if it identifies a prompt, group={name} if a "
                "group, whatever its prompts" + self._if_neither(),
            )

    def _if_neither(self) -> str:
        return f", group={self.text} if neither" if self.log.identities - {"step"} else ""

    def joined_by_ids(self) -> Iterator[_Doubt]:
        """Doubt groups of one, which an id would join, and any that a group's id would."""
        if "group" in self.log.source.form.given:
            return
        alone = self.size_K.max() == 1
        for column in [*self._others(), *({"group"} & {*self.table})]:
            values, name = self.table[column], column.removeprefix(OTHER)
            name = self.column("group") if column == "group" else name
            joins = alone or ("group" in name.lower() and column != "group")
            keys = {"id": values, "step": self.table.get("step", 0)}
            joined = number(pd.DataFrame(keys), "id", "step")
            pairs = pd.DataFrame({"id": joined, "group": self.group_N}).drop_duplicates()
            finer = len(pairs) > len(self.size_K)
            if (
                joins
                and not finer
                and values.nunique() > 1
                and len(pairs) > joined.max() + 1
            ):
                yield (
                    self.size_K > 0,
                    f"and {name} is that of several",
                    f"--columns group={name} if it identifies a group, whatever its "
                    f"prompts{self._if_neither()}",
                )

    def of_group_ids(self) -> Iterator[_Doubt]:
        """Doubt a group id that numbers completions: no two of a prompt share one."""
        keys = [key for key in ("prompt", "step") if key in self.table]
        if keys and largest_mode(self.size_K) == 1:
            again_N = self.table.duplicated(keys)
            yield (
                np.bincount(self.group_N, weights=again_N) > 0,
                f"and no two of a prompt share a {self.column('group')}, so it identifies "
                "no group",
                "name what does, --columns group=..."
                + (
                    f", or group={self.text} for those of a prompt and step"
                    if "prompt" in self.table
                    else ""
                ),
            )

    def of_prompts(self) -> Iterator[_Doubt]:
        """Doubt groups of a prompt's id or text that may be several, by their sizes."""
        remedy = (
            "are these several groups? Name what tells them apart, --columns "
            "prompt_id=..., group=... or step=..., or "
            f"group={self.text} if they are one; --group-size G cuts by order"
        )
        yield from ((*unlike, remedy) for unlike in self._unlike_others())

    def _unlike_others(self) -> Iterator[tuple[Flags, str]]:
        """Find groups of an id that are larger than others, or of a text that are unlike.

        A group may lack the lines that were left out, and the last one what was cut off. A
        text of all completions says nothing.
        """
        common, largest = np.argmax(np.bincount(self.size_K)), self.size_K.max()
        if self.identity == "prompt_id":
            yield self.size_K > common, f"others {common}"
            return
        if len(self.table) > 1 and self.table["prompt"].nunique() == 1:
            yield self.size_K > 0, "and there is no other prompt"
        short_K = largest - self.size_K
        if self.log.faults.early:
            short_K[self.group_N[-1]] = 0
        if short_K.sum() > len(self.log.faults.damaged):
            yield self.size_K == largest, f"others {self.size_K[np.argmax(short_K)]}"

    def cut(self, size: int) -> Ints:
        """Cut groups into blocks of a size, in the order of their completions.

        Where each completion has a prompt of its own, these are blocks of neighbours.
        """
        if self.size_K.max() == 1 and "prompt" in self.keys and size > 1:
            if self.log.source.form.mixed:
                raise InputError(
                    f"--group-size {size}: every completion has a prompt of its own, and "
                    "the order of these files says nothing; --columns group=... names what "
                    "identifies a group"
                )
            keys = [key for key in ("file", "step") if key in self.table]
            group_N = number(self.table, *keys)
            by_order = _ById(self.log, self.table, keys, group_N, np.bincount(group_N))
            by_order.refuse_again()
            cut_N = by_order.cut(size)
            cut = _ById(self.log, self.table, keys, cut_N, np.bincount(cut_N))
            cut.refuse(cut.split_by_ids())
            return cut_N
        odd_K = self.size_K % size != 0
        if self.log.faults.damaged or self.log.faults.early:
            odd_K &= self.size_K > size
        for group in np.flatnonzero(odd_K)[:1]:
            raise InputError(
                f"--group-size {size}: {self.name(group)}, which are no whole groups"
            )
        rank_N = pd.Series(self.group_N).groupby(self.group_N).cumcount().to_numpy()
        pairs = pd.DataFrame({"group": self.group_N, "rank": rank_N // size})
        return number(pairs, "group", "rank")


def groups_by_id(log: Log, table: pd.DataFrame, group_size: int | None) -> Ints:
    """Put completions into groups by what the log gives of a prompt, step and group."""
    named = {"prompt_id", "prompt", "group"} & log.identities
    if not named and group_size is None:
        raise InputError(
            f"which of the columns {shorten(', '.join(log.source.names), 200)} identifies "
            "a prompt or group? Name one, --columns prompt_id=... or group=...; or give "
            "--group-size G where groups are blocks of lines"
        )
    whole = "group" in log.source.form.given  # A group that the user named.
    of_names = ("step", "group") if whole else ("prompt", "step", "group")
    keys = [key for key in (of_names if named else ("file", "step")) if key in table]
    group_N = number(table, *keys)
    by_id = _ById(log, table, keys, group_N, np.bincount(group_N))
    by_id.refuse(by_id.in_two_files())
    if group_size is not None:
        return by_id.cut(group_size)
    by_id.refuse_again()
    by_id.refuse(by_id.split_by_ids())
    by_id.refuse(by_id.of_group_ids() if "group" in named else by_id.of_prompts())
    by_id.refuse(by_id.joined_by_ids())
    return group_N
