"""The files of a log: found in a folder, each once, of one form.

A folder may hold checkpoints, data sets and other files beside the rollouts: what is of no
known form is passed over, and counted. Files that are the same by device and inode, or byte
by byte, are one file. Rollouts lie in one folder: where several below the one that is named
hold some, of a training and its evaluations or of two trainings, they are to be named.
"""

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple, NoReturn

from mse_lab.errors import InputError, shorten
from mse_lab.logs.forms import Form, GivenColumns, recognise, refuse_columns
from mse_lab.probe.plain_text import reading
from mse_lab.probe.rows import PICKLES, ROW_SUFFIXES, head_of, may_hold_rows


@dataclass(frozen=True)
class LeftOut:
    """Something that was not counted, or is missing."""

    count: int
    what: str  # In words, behind the count.
    remedy: str = ""  # What would keep it.
    where: str = ""  # The first of it.

    def line(self) -> str:
        """Say it."""
        where = f" ({shorten(self.where)})" if self.where else ""
        remedy = f" {self.remedy[:1].upper()}{self.remedy[1:]}." if self.remedy else ""
        return f"{self.count:,} {self.what}{where}.{remedy}"


@dataclass
class LogSource:
    """What is read."""

    name: str  # The folder or files.
    form: Form  # The form of its first file.
    names: Sequence[str]  # The columns of that file.
    files: Mapping[Path, Form] = field(default_factory=dict)
    asked: bool = False  # Whether every file was named, not found in a folder.
    left_out: list[LeftOut] = field(default_factory=list)


class _Recognised(NamedTuple):
    """The files at some paths: those of a form, of none, and why some cannot be read."""

    known: dict[Path, Form]
    unknown: list[Path]
    faults: list[str]


def _natural(path: Path) -> list[tuple[int, str]]:
    """Make a key that sorts 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _files(path: Path) -> Iterator[Path]:
    """List the files at a path that may hold rollouts."""
    with reading(path):
        if path.is_dir():
            found = filter(may_hold_rows, path.rglob("*"))
            yield from sorted(filter(Path.is_file, found), key=_natural)
        elif path.is_file():
            yield path
        else:
            raise InputError(f"{path}: no such file or folder; name a run's folder")


def _length(path: Path) -> int:
    """Give the bytes of a file, unpacked; of those that gzip wrote, modulo 2^32."""
    size = path.stat().st_size
    if path.suffix != ".gz" or size < 4:
        return size
    with path.open("rb") as file:
        file.seek(-4, 2)
        return int.from_bytes(file.read(4), "little")


def _open(path: Path) -> BufferedIOBase:
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def _same(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes, unpacked."""
    with _open(one) as first, _open(other) as second:
        try:
            while piece := first.read(1 << 20):
                if piece != second.read(len(piece)):
                    return False
            return not second.read(1)
        except (EOFError, OSError):
            return False


def _each_once(paths: Sequence[Path]) -> tuple[list[Path], list[LeftOut]]:
    """Leave out links and copies of files that come before."""
    kept: list[Path] = []
    inodes, lengths = set[tuple[int, int]](), dict[int, list[Path]]()
    links, copies = list[Path](), list[Path]()
    for path in paths:
        with reading(path):
            stat, length = path.stat(), _length(path)
            alike = lengths.setdefault(length, [])
            if (stat.st_dev, stat.st_ino) in inodes:
                links.append(path)
            elif any(_same(path, other) for other in alike):
                copies.append(path)
            else:
                kept.append(path)
                alike.append(path)
            inodes.add((stat.st_dev, stat.st_ino))
    left_out = [
        LeftOut(len(found), f"{what} of another file, counted once", where=str(found[0]))
        for found, what in ((links, "link(s)"), (copies, "copies"))
        if found
    ]
    return kept, left_out


def _refuse_unknown(
    name: str, paths: Sequence[Path], found: _Recognised, given: GivenColumns
) -> NoReturn:
    """Say why nothing at some paths is a log."""
    for path in [one for one in found.unknown if one in paths] or found.unknown[:1]:
        refuse_columns(str(path), head_of(path), given)
    if found.faults:
        raise InputError(found.faults[0])
    below = (one for path in paths if path.is_dir() for one in path.rglob("*"))
    for pickle in (one for one in below if one.suffix in PICKLES):
        raise InputError(
            f"{name}: rollouts in a pickle ({shorten(str(pickle))}) are never loaded; save "
            "their rows as JSONL with prompt_id and reward"
        )
    raise InputError(
        f"{name}: has no {', '.join(ROW_SUFFIXES)} file; name the folder that the trainer "
        "writes its rollouts to"
    )


def _recognise_all(paths: Sequence[Path], given: GivenColumns) -> _Recognised:
    """Find the form of every file at some paths."""
    found = _Recognised({}, [], [])
    for path in paths:
        for file in _files(path):
            try:
                form = recognise(head_of(file), given)
            except InputError as error:
                if file == path:
                    raise
                found.faults.append(str(error))
                continue
            if form is None:
                found.unknown.append(file)
            else:
                found.known[file] = form
    return found


def _passed_over(found: _Recognised) -> Iterator[LeftOut]:
    if found.unknown:
        what = "file(s) of other columns: left out"
        yield LeftOut(len(found.unknown), what, where=str(found.unknown[0]))
    if found.faults:
        what = "file(s) that cannot be read: left out"
        yield LeftOut(len(found.faults), what, where=found.faults[0])


def find_logs(paths: Sequence[Path], given: GivenColumns) -> LogSource:
    """Find the files of a log; `given` are the user's names of columns."""
    name, found = ", ".join(map(str, paths)), _recognise_all(paths, given)
    if not found.known or {*paths} & {*found.unknown}:
        _refuse_unknown(name, paths, found, given)
    files, left_out = _each_once([*found.known])
    for path in paths:
        _refuse_several(path, [one for one in files if path in one.parents])
    _refuse_mixture({file: found.known[file] for file in files})
    return LogSource(
        name,
        found.known[files[0]],
        [*head_of(files[0])],
        {file: found.known[file] for file in files},
        asked=all(path.is_file() for path in paths),
        left_out=[*left_out, *_passed_over(found)],
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


def _refuse_mixture(found: Mapping[Path, Form]) -> None:
    kinds = {form.name: path for path, form in found.items()}
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(f"{shorten(some, 300)}: of several forms; name the files of one")
