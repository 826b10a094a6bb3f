"""The files of a log: found in a folder, each once, of one form.

A folder may hold checkpoints, data sets and other files beside the rollouts: what is of no
known form is passed over, and counted. Files that are the same by device and inode, or byte
by byte, are one file. Rollouts lie in one folder: where several below the one that is named
hold some, of a training and its evaluations or of two trainings, they are to be named.
"""

import gzip
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import pyarrow as pa

from mse_lab.errors import InputError, one_line, shorten
from mse_lab.logs.forms import Form, GivenColumns, recognise
from mse_lab.logs.trl_state import State, find_state
from mse_lab.records.plain_text import reading
from mse_lab.records.rows import LINES, ROW_SUFFIXES, Faults, head_of, may_hold_rows


@dataclass(frozen=True)
class LeftOut:
    """Something that was not counted, or is missing."""

    count: int
    what: str  # In words, behind the count.
    remedy: str = ""  # What would keep it.
    where: str = ""  # The first of it.

    def line(self) -> str:
        """Say it."""
        where = f" ({shorten(one_line(self.where))})" if self.where else ""
        remedy = f" {self.remedy[:1].upper()}{self.remedy[1:]}." if self.remedy else ""
        return f"{self.count:,} {self.what}{where}.{remedy}"


# The form of a file, and its columns.
Head: TypeAlias = tuple[Form, Mapping[str, pa.DataType]]


@dataclass(frozen=True)
class LogSource:
    """What is read."""

    name: str  # The folder or files.
    form: Form  # The form of its first file.
    names: Mapping[str, pa.DataType]  # The columns of that file.
    files: Mapping[Path, Head] = field(default_factory=dict)
    asked: bool = False  # Whether every file was named, not found in a folder.
    left_out: list[LeftOut] = field(default_factory=list)
    state: State | None = None  # What TRL's `trainer_state.json` says.

    def place(self, table: pd.DataFrame, at: int) -> str:
        """Name a completion of a table in a message."""
        file, row = (int(table[name].iloc[at]) for name in ("file", "row"))
        name = [*map(str, self.files), self.name][file]
        unit = "line" if name.endswith((*LINES, ".csv")) else "row"
        return f"{name}, {unit} {row}"


def _natural(path: Path) -> list[tuple[int, str]]:
    """Make a key that sorts 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _files(path: Path) -> Iterator[Path]:
    """List the files at a path that may hold rollouts."""
    with reading(path):
        if path.is_dir():
            inside = filter(may_hold_rows, path.rglob("*"))
            yield from sorted(filter(Path.is_file, inside), key=_natural)
        elif path.is_file():
            yield path
        else:
            raise InputError(f"{path}: no such file or folder; name a run's folder")


def _digest(path: Path) -> bytes:
    """Digest what a file holds, unpacked; of one that cannot be read its name."""
    digest = hashlib.sha256()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            while piece := file.read(1 << 20):
                digest.update(piece)
        except (EOFError, OSError, zlib.error):
            return bytes(path)
    return digest.digest()


def _each_once(paths: Sequence[Path]) -> tuple[list[Path], list[LeftOut]]:
    """Leave out links and copies of files that come before."""
    kept, links, copies = dict[bytes, Path](), list[Path](), list[Path]()
    inodes = set[tuple[int, int]]()
    for path in paths:
        with reading(path):
            stat, several = path.stat(), len(paths) > 1
            inode = (stat.st_dev, stat.st_ino)
            digest = _digest(path) if several and inode not in inodes else b""
        if inode in inodes:
            links.append(path)
        elif digest in kept:
            copies.append(path)
        else:
            kept[digest] = path
        inodes.add(inode)
    left_out = [
        LeftOut(len(again), f"{what} of another file, counted once", where=str(again[0]))
        for again, what in ((links, "link(s)"), (copies, "copies"))
        if again
    ]
    return [*kept.values()], left_out


def _form_of(file: Path, given: GivenColumns, state: State | None) -> Head:
    """Find the form of a file, and its columns."""
    faults = Faults(partial=True)
    types = head_of(file, faults)
    try:
        functions = state.functions if state else ()
        return recognise(str(file), types, given, functions), types
    except InputError:
        for line in faults.damaged:  # Which may hold the columns that others lack.
            raise InputError(f"{line}; repair that line, or take it out") from None
        raise


def _recognise_all(
    paths: Sequence[Path], given: GivenColumns
) -> tuple[dict[Path, Head], list[str]]:
    """Find the form of every file at some paths; say of others why they have none."""
    known, others, state_of = dict[Path, Head](), list[str](), cache(find_state)
    for path in paths:
        for file in _files(path):
            try:
                known[file] = _form_of(file, given, state_of(file.parent))
            except InputError as error:
                if file == path:
                    raise
                others.append(str(error))
    return known, others


def find_logs(paths: Sequence[Path], given: GivenColumns) -> LogSource:
    """Find the files of a log; `given` are the user's names of columns."""
    name, (known, others) = ", ".join(map(str, paths)), _recognise_all(paths, given)
    if not known:
        kinds = f"has no {', '.join(ROW_SUFFIXES)} file"
        remedy = f"{name}: {kinds}; name the folder that the trainer writes its rollouts to"
        raise InputError(others[0] if others else remedy)
    files, left_out = _each_once([*known])
    heads = {file: known[file] for file in files}
    for path in paths:
        _refuse_several(path, [file for file in files if path in file.parents])
    _refuse_mixture({file: form for file, (form, _) in heads.items()})
    if others:
        what = "file(s) that are no log: left out"
        left_out.append(LeftOut(len(others), what, where=others[0]))
    return LogSource(
        name,
        *known[files[0]],
        heads,
        asked=all(path.is_file() for path in paths),
        left_out=left_out,
        state=find_state(files[0].parent),
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


def _refuse_mixture(forms: Mapping[Path, Form]) -> None:
    kinds = {form.name: path for path, form in forms.items()}
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(f"{shorten(some, 300)}: of several forms; name the files of one")
