"""Read a log: all completions of a folder, files, or a data frame, as columns.

Files are found in folders, and recognised by what is in them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from mse_lab.errors import InputError, shorten
from mse_lab.probe.plain_text import reading
from mse_lab.trainer_logs import forms, own_columns, prime_rl
from mse_lab.trainer_logs.collect import Collector, Columns
from mse_lab.trainer_logs.completion import Completion, Form, Place
from mse_lab.trainer_logs.records import (
    PICKLES,
    SUFFIXES,
    CutLine,
    Records,
    records_of,
    records_of_frame,
)


@dataclass
class Source:
    """What was read."""

    name: str  # The folder or file.
    form: Form  # How the trainer writes.
    # The files that were read, and the form of each.
    forms: dict[Path, Form] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)  # Files of no known form.
    cut_lines: int = 0  # Last lines that were not whole.
    copies: int = 0  # Files that repeat the one before.


@dataclass(frozen=True)
class Log:
    """A log: what was read, its completions, and, of prime-rl, its token exports."""

    source: Source
    columns: Columns
    exports: Columns | None = None


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _files(paths: Sequence[Path], suffixes: Sequence[str] = SUFFIXES) -> Iterator[Path]:
    for path in paths:
        with reading(path):
            if path.is_dir():
                below = (one for one in path.rglob("*") if one.suffix in suffixes)
                yield from sorted((one for one in below if one.is_file()), key=_natural)
            elif path.is_file():
                yield path
            else:
                raise InputError(f"{path}: no such file or folder; name a run's folder")


def _keys_of(path: Path) -> list[str]:
    """List the keys of a file's first record; none where it has no record."""
    try:
        return list(next(records_of(path), (None, {}))[1])
    except CutLine:
        return []


def _refuse_unknown(paths: Sequence[Path], files: Sequence[Path]) -> None:
    where = shorten(", ".join(map(str, paths)))
    pickles = [one for path in paths for one in path.rglob("*") if one.suffix in PICKLES]
    if pickles:
        raise InputError(
            f"{where}: rollouts in a pickle ({shorten(str(pickles[0]))}) are never "
            "loaded; save their rows as JSONL with prompt_id and reward"
        )
    if not files:
        raise InputError(
            f"{where}: has no {', '.join(SUFFIXES)} file; name the folder that "
            "the trainer writes its rollouts to"
        )
    keys = _keys_of(files[0])
    has = shorten(", ".join(keys))
    has = f"the first has {has}" if keys else "no record in the first"
    needs = "; ".join(f"{form.name}: {', '.join(form.needs)}" for form in forms.FORMS)
    raise InputError(
        f"{where}: no rollouts of a known form. Looked at: "
        f"{shorten(', '.join(map(str, files)))} ({has}). Name your columns by --columns "
        f"prompt=...,reward=...; known forms have these: {needs}"
    )


def _refuse_mixture(found: dict[Path, Form]) -> None:
    kinds = {form.name.split()[0]: path for path, form in found.items()}
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(
            f"{shorten(some, 300)}: rollouts of several forms; name the files of one"
        )


def _counted(found: dict[Path, Form]) -> dict[Path, Form]:
    """Leave out evaluations of prime-rl, and the traces that stand in `all`, too."""
    if not next(iter(found.values())).name.startswith("prime-rl"):
        return found
    unwanted = {"eval"}
    if any("all" in path.parts for path in found if "eval" not in path.parts):
        unwanted.add("effective")
    return {path: form for path, form in found.items() if not unwanted & {*path.parts}}


def _find(paths: Sequence[Path]) -> tuple[dict[Path, Form], list[Path]]:
    """Find the files of a log and their forms, and those that are of no form."""
    found: dict[Path, Form] = {}
    unknown = []
    for path in _files(paths):
        is_slime = path.suffix == ".pt"
        if form := forms.SLIME if is_slime else forms.recognise(_keys_of(path)):
            found[path] = form
        else:
            unknown.append(path)
    if not found:
        _refuse_unknown(paths, unknown)
    _refuse_mixture(found)
    return _counted(found), unknown


def _as_form(paths: Sequence[Path], form: Form) -> tuple[dict[Path, Form], list[Path]]:
    files = dict.fromkeys(_files(paths, (".jsonl", ".parquet", ".csv")), form)
    if not files:
        raise InputError(f"{paths[0]}: no .jsonl, .parquet or .csv file; name one")
    return files, []


def completions_of(form: Form, records: Records) -> Iterator[tuple[Place, Completion]]:
    """Read the completions of records."""
    for where, record in records:
        for completion in form.read(record, where):
            yield where, completion


def _digest(completion: Completion) -> int:
    """A hash of what is in a copy, too: all but the step."""
    rewards = tuple(map(repr, completion.rewards.values()))
    return hash((completion.prompt, completion.text, rewards, repr(completion.advantage)))


def _add_file(
    path: Path, form: Form, source: Source, collector: Collector, before: list[int]
) -> list[int]:
    """Collect a file's completions; return their hashes, of TRL's."""
    start, digests = len(collector), []
    try:
        for where, completion in completions_of(form, records_of(path)):
            collector.add(completion, where)
            if form is forms.TRL:
                digests.append(_digest(completion))
    except CutLine:
        source.cut_lines += 1
    if digests and digests == before:
        collector.drop_from(start)
        source.copies += 1
    return digests


def _read_files(source: Source) -> Log:
    collector, exports, digests = Collector(), Collector(), list[int]()
    for path, form in source.forms.items():
        apart = form is prime_rl.EXPORTS and source.form is not form
        target = exports if apart else collector
        digests = _add_file(path, form, source, target, digests)
    return Log(source, collector.finish(), exports.finish() if len(exports) else None)


def _read_frame(frame: pd.DataFrame, form: Form | None) -> Log:
    names = [str(name) for name in frame.columns]
    form = form or forms.recognise(names)
    if form is None:
        raise InputError(
            f"a data frame with columns {', '.join(names)}: of no known "
            "form; give columns={'prompt': ..., 'reward': ...}"
        )
    collector = Collector()
    for where, completion in completions_of(form, records_of_frame(frame)):
        collector.add(completion, where)
    return Log(Source("the data frame", form), collector.finish())


def read_log(
    given: Sequence[Path] | pd.DataFrame, columns: own_columns.Columns | None = None
) -> Log:
    """Read a log: folders and files, or a data frame, perhaps with columns of one's own."""
    own = own_columns.form_of(columns) if columns else None
    if isinstance(given, pd.DataFrame):
        log = _read_frame(given, own)
    else:
        found, unknown = _find(given) if own is None else _as_form(given, own)
        joined = [form for form in found.values() if form is not prime_rl.EXPORTS]
        form = joined[0] if joined else prime_rl.EXPORTS
        name = ", ".join(map(str, given))
        log = _read_files(Source(name, form, forms=found, unknown=unknown))
    if not len(log.columns.step_N):
        raise InputError(f"{log.source.name}: no completions; let the trainer write some")
    return log
