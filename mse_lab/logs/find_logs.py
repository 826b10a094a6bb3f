"""The files of a log: found in a folder, each once, of one form.

A folder may hold checkpoints, data sets and other files beside the rollouts: what is of no
known form is passed over, and counted, but for a file that has the name of a step's log,
which is refused. Files that are the same byte by byte are one file.
Rollouts lie in one folder: where several below the one that is named hold some, of a
training and its evaluations or of two trainings, they are to be named. TRL's
`trainer_state.json` beside them names the steps that were evaluated, and the reward
functions.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags
from mse_lab.errors import InputError, one_line, shorten
from mse_lab.logs.forms import Form, GivenColumns, recognise
from mse_lab.records.plain_text import parse_json, reading
from mse_lab.records.rows import LINES, MAY_HOLD_ROWS, ROW_SUFFIXES, Faults, head_of

_FUNCTION = re.compile(r"rewards/(.+)/mean")
# What TRL and verl call the file of a step.
_OF_A_STEP = re.compile(r"completions_\d+\.(parquet|csv)|\d+\.jsonl(\.gz)?")
_GIVE = "; by its name a step's log: give it whole, or --partial (partial=True)"


@dataclass(frozen=True)
class LeftOut:
    """Something that was not counted."""

    count: int
    what: str  # In words, behind the count.
    where: str = ""  # The first of it.

    def line(self) -> str:
        """Say it."""
        where = f" ({shorten(one_line(self.where))})" if self.where else ""
        return f"{self.count:,} {self.what}{where}."


def count_left_out(found: Mapping[str, Sequence[Any]]) -> list[LeftOut]:
    """Count what was left out, by its words."""
    return [LeftOut(len(all_), what, str(all_[0])) for what, all_ in found.items() if all_]


@dataclass(frozen=True)
class State:
    """What a `trainer_state.json` says."""

    last_step: int  # The step it was written at.
    evaluated: frozenset[int]  # The steps that were evaluated until then.
    functions: tuple[str, ...]  # The names of the reward functions.


def _parse_state(path: Path) -> State | None:
    """Read a state; None where it is not there, or is not one."""
    try:
        state: Any = parse_json(path.read_bytes(), str(path))
        keys = [(int(one["step"]), key) for one in state["log_history"] for key in one]
        evaluated = {step for step, key in keys if key.startswith("eval_")}
        named = filter(None, (_FUNCTION.fullmatch(key) for _, key in keys))
        names = tuple(dict.fromkeys(one[1] for one in named))
        return State(int(state["global_step"]), frozenset(evaluated), names)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None


def find_state(completions: Path) -> State | None:
    """Find the newest state beside the folder `completions`."""
    folder = completions.resolve().parent
    numbers = [one.name.removeprefix("checkpoint-") for one in folder.glob("checkpoint-*")]
    last = max(map(int, filter(str.isdecimal, numbers)), default=0)
    files = [one / "trainer_state.json" for one in (folder, folder / f"checkpoint-{last}")]
    known = [state for file in files if (state := _parse_state(file))]
    return max(known, key=lambda state: state.last_step, default=None)


@dataclass(frozen=True)
class Log:
    """A log: what is read, and its completions (`read_logs.py`)."""

    name: str  # The folder or files.
    form: Form  # That of its first file.
    given: GivenColumns
    files: Mapping[Path, Form] = field(default_factory=dict)
    asked: bool = False  # Whether every file was named, not found in a folder.
    state: State | None = None  # What TRL's `trainer_state.json` says.
    faults: Faults = field(default_factory=Faults)  # What could not be read.
    left_out: tuple[LeftOut, ...] = ()
    completions: pd.DataFrame = field(default_factory=pd.DataFrame)
    labels: dict[int, str] = field(default_factory=dict)  # Of prompts, by their hash.
    identity: str = ""  # The name that names prompts, `prompt_id` or `prompt`.

    def place(self, table: pd.DataFrame, at: int) -> str:
        """Name a completion of a table in a message."""
        file, row = (int(table[name].iloc[at]) for name in ("file", "row"))
        name = [*map(str, self.files), self.name][file]
        unit = "line" if name.endswith((*LINES, ".csv")) else "row"
        return f"{name}, {unit} {row}"

    def refuse(self, table: pd.DataFrame, odd_N: Flags, why: str) -> None:
        """Refuse the first completion of a table that is odd."""
        for at in np.flatnonzero(odd_N)[:1].tolist():
            raise InputError(f"{self.place(table, at)}: {why}")


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


def _each_once(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Take links and copies of files that come before out."""
    kept, again = dict[bytes, Path](), list[Path]()
    for file in files:
        with reading(file), file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest() if files[1:] else b""
        if kept.setdefault(digest, file) is not file:
            again.append(file)
    return [*kept.values()], again


def _form_of(file: Path, given: GivenColumns, state: State | None, *, whole: bool) -> Form:
    """Recognise a file by its first rows, or by all columns of the `whole`."""
    types, functions = head_of(file), state.functions if state else ()
    columns = head_of(file, whole=True) if whole else types
    return replace(recognise(str(file), columns, given, functions), types=types)


def find_logs(paths: Sequence[Path], given: GivenColumns, faults: Faults) -> Log:
    """Find the files of a log; `given` are the user's names of columns."""
    known, others, state_of = dict[Path, Form](), dict[Path, str](), cache(find_state)
    for file in [file for path in paths for file in _files(path)]:
        try:
            known[file] = _form_of(file, given, state_of(file.parent), whole=False)
        except InputError as error:
            others[file] = str(error)
    for file in [*others]:
        of_step = _OF_A_STEP.fullmatch(file.name) and not faults.partial
        if file in paths or of_step or not known:
            try:
                known[file] = _form_of(file, given, state_of(file.parent), whole=True)
            except InputError as error:
                remedy = _GIVE if known and file not in paths else ""
                raise InputError(f"{error}{remedy}") from None
            del others[file]
    name = ", ".join(map(str, paths))
    if not known:
        has = f"{name}: has no {', '.join(ROW_SUFFIXES)} file"
        raise InputError(f"{has}; name the folder that the trainer writes its rollouts to")
    files, again = _each_once([*known])
    for path in paths:  # Of a training and its evaluations, or of two trainings.
        folders = Counter(file.parent for file in files if path in file.parents)
        if len(folders) > 1:
            some = ", ".join(f"{folder} ({count})" for folder, count in folders.items())
            raise InputError(
                f"{path}: rollouts in {len(folders)} folders, {shorten(some, 300)}; name "
                "the one of the training, or its files"
            )
    forms = {known[file].name: file for file in files}
    if len(forms) > 1:
        some = ", ".join(f"{path} ({form})" for form, path in forms.items())
        raise InputError(f"{shorten(some, 300)}: of several forms; name the files of one")
    left_out: dict[str, Sequence[Any]] = {
        "link(s) or copies of another file, counted once": again,
        "file(s) that are no log: left out": [*others.values()],
    }
    return Log(
        name,
        known[files[0]],
        given,
        {file: known[file] for file in files},
        asked=all(path.is_file() for path in paths),
        state=state_of(files[0].parent),
        faults=faults,
        left_out=tuple(count_left_out(left_out)),
    )
