"""The files of a log: found in a folder, each once, of one form.

A folder may hold checkpoints, data sets and other files beside the rollouts: what is of no
known form is passed over, and counted. Files that are the same byte by byte are one file.
Rollouts lie in one folder: where several below the one that is named hold some, of a
training and its evaluations or of two trainings, they are to be named.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from mse_lab.errors import InputError, one_line, shorten
from mse_lab.logs.forms import Form, GivenColumns, recognise
from mse_lab.logs.trl_state import State, find_state
from mse_lab.records.plain_text import reading
from mse_lab.records.rows import LINES, MAY_HOLD_ROWS, ROW_SUFFIXES, Faults, head_of


@dataclass(frozen=True)
class LeftOut:
    """Something that was not counted."""

    count: int
    what: str  # In words, behind the count.
    remedy: str = ""  # What would keep it.
    where: str = ""  # The first of it.

    def line(self) -> str:
        """Say it."""
        where = f" ({shorten(one_line(self.where))})" if self.where else ""
        remedy = f" {self.remedy[:1].upper()}{self.remedy[1:]}." if self.remedy else ""
        return f"{self.count:,} {self.what}{where}.{remedy}"


class Head(NamedTuple):
    """What the first rows of a file tell."""

    form: Form
    types: Mapping[str, pa.DataType]  # Of its columns.


@dataclass(frozen=True)
class Log:
    """A log: what is read, and its completions (`read_logs.py`)."""

    name: str  # The folder or files.
    head: Head  # That of its first file.
    given: GivenColumns
    files: Mapping[Path, Head] = field(default_factory=dict)
    asked: bool = False  # Whether every file was named, not found in a folder.
    state: State | None = None  # What TRL's `trainer_state.json` says.
    faults: Faults = field(default_factory=Faults)  # What could not be read.
    left_out: tuple[LeftOut, ...] = ()
    completions: pd.DataFrame = field(default_factory=pd.DataFrame)
    labels: Mapping[int, str] = field(default_factory=dict)  # Of prompts, by their hash.
    identity: str = ""  # The name that names prompts, `prompt_id` or `prompt`.

    @property
    def form(self) -> Form:
        """How its files write completions."""
        return self.head.form

    def place(self, table: pd.DataFrame, at: int) -> str:
        """Name a completion of a table in a message."""
        file, row = (int(table[name].iloc[at]) for name in ("file", "row"))
        name = [*map(str, self.files), self.name][file]
        unit = "line" if name.endswith((*LINES, ".csv")) else "row"
        return f"{name}, {unit} {row}"


def _files(path: Path) -> Iterator[Path]:
    """List the files at a path that may hold rollouts."""
    with reading(path):
        if path.is_dir():
            inside = (one for one in path.rglob("*") if one.name.endswith(MAY_HOLD_ROWS))
            yield from sorted(filter(Path.is_file, inside))
        elif path.is_file():
            yield path
        else:
            raise InputError(f"{path}: no such file or folder; name a run's folder")


def _each_once(files: Sequence[Path]) -> tuple[list[Path], list[LeftOut]]:
    """Leave out links and copies of files that come before."""
    kept, again = dict[bytes, Path](), list[str]()
    for file in files:
        with reading(file), file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest() if files[1:] else b""
        if kept.setdefault(digest, file) is not file:
            again.append(str(file))
    what = "link(s) or copies of another file, counted once"
    left_out = [LeftOut(len(again), what, where=again[0])] if again else []
    return [*kept.values()], left_out


def _head(file: Path, given: GivenColumns, state: State | None) -> Head:
    """Find the form of a file, and its columns."""
    faults = Faults(partial=True)
    types = head_of(file, faults)
    try:
        functions = state.functions if state else ()
        return Head(recognise(str(file), types, given, functions), types)
    except InputError:
        for line in faults.damaged:  # Which may hold the columns that others lack.
            raise InputError(f"{line}; repair that line, or take it out") from None
        raise


def find_logs(paths: Sequence[Path], given: GivenColumns, faults: Faults) -> Log:
    """Find the files of a log; `given` are the user's names of columns."""
    known, others, state_of = dict[Path, Head](), list[str](), cache(find_state)
    for path in paths:
        for file in _files(path):
            try:
                known[file] = _head(file, given, state_of(file.parent))
            except InputError as error:
                if file == path:
                    raise
                others.append(str(error))
    name = ", ".join(map(str, paths))
    if not known:
        kinds = f"has no {', '.join(ROW_SUFFIXES)} file"
        remedy = f"{name}: {kinds}; name the folder that the trainer writes its rollouts to"
        raise InputError(others[0] if others else remedy)
    files, left_out = _each_once([*known])
    for path in paths:
        _refuse_several(path, [file for file in files if path in file.parents])
    _refuse_mixture({known[file].form.name: file for file in files})
    if others:
        what = "file(s) that are no log: left out"
        left_out.append(LeftOut(len(others), what, where=others[0]))
    return Log(
        name,
        known[files[0]],
        given,
        {file: known[file] for file in files},
        asked=all(path.is_file() for path in paths),
        state=state_of(files[0].parent),
        faults=faults,
        left_out=tuple(left_out),
    )


def _refuse_several(root: Path, files: Sequence[Path]) -> None:
    """Refuse several folders: of a training and its evaluations, or of two trainings."""
    folders = Counter(file.parent for file in files)
    if len(folders) > 1:
        some = ", ".join(f"{folder} ({count})" for folder, count in folders.items())
        raise InputError(
            f"{root}: rollouts in {len(folders)} folders, {shorten(some, 300)}; name the "
            "one of the training, or its files"
        )


def _refuse_mixture(kinds: Mapping[str, Path]) -> None:
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(f"{shorten(some, 300)}: of several forms; name the files of one")
