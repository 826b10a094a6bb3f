"""Read a log: all completions of a folder, files, or a data frame, as columns.

The form of a file is recognised by the keys of its first record.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from mse_lab.errors import InputError, shorten
from mse_lab.probe.plain_text import reading
from mse_lab.trainer_logs import forms, prime_rl
from mse_lab.trainer_logs.collect import Collector, Columns
from mse_lab.trainer_logs.column_names import ColumnNames, form_of_columns
from mse_lab.trainer_logs.completion import Completion, Form, RecordPosition
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

    name: str  # The folder or files.
    form: Form  # The form of the log.
    # The files that were read, and the form of each.
    forms: dict[Path, Form] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)  # Files of no known form.
    cut_lines: int = 0  # Number of files whose last line is not whole.
    copies: int = 0  # Number of files that repeat the one before.


@dataclass(frozen=True)
class Log:
    """A log: what was read, its completions, and the token exports of prime-rl."""

    source: Source
    columns: Columns
    exports: Columns | None = None


def _natural(path: Path) -> list[tuple[int, str]]:
    """Make a key that sorts 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _files(paths: Sequence[Path], suffixes: Sequence[str] = SUFFIXES) -> Iterator[Path]:
    for path in paths:
        with reading(path):
            if path.is_dir():
                files = (one for one in path.rglob("*") if one.suffix in suffixes)
                yield from sorted(filter(Path.is_file, files), key=_natural)
            elif path.is_file():
                yield path
            else:
                raise InputError(f"{path}: no such file or folder; name a run's folder")


def _keys_of(path: Path) -> list[str]:
    """List the keys of a file's first record; none where it has no record."""
    try:
        return list(next(records_of(path), {}))
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


def _refuse_mixture(forms_by_path: dict[Path, Form]) -> None:
    kinds = {form.name.split()[0]: path for path, form in forms_by_path.items()}
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(
            f"{shorten(some, 300)}: rollouts of several forms; name the files of one"
        )


def _leave_out_evaluations(forms_by_path: dict[Path, Form]) -> dict[Path, Form]:
    """Leave out prime-rl's evaluations, and `effective` traces where `all` has them too."""
    if not next(iter(forms_by_path.values())).name.startswith("prime-rl"):
        return forms_by_path
    unwanted = {"eval"}
    if any("all" in path.parts for path in forms_by_path if "eval" not in path.parts):
        unwanted.add("effective")
    return {
        path: form for path, form in forms_by_path.items() if not unwanted & {*path.parts}
    }


def _recognise_files(paths: Sequence[Path]) -> tuple[dict[Path, Form], list[Path]]:
    """Find the files of a log and their forms, and the files of no known form."""
    forms_by_path: dict[Path, Form] = {}
    unknown = []
    for path in _files(paths):
        is_slime = path.suffix == ".pt"
        if form := forms.SLIME if is_slime else forms.recognise(_keys_of(path)):
            forms_by_path[path] = form
        else:
            unknown.append(path)
    if not forms_by_path:
        _refuse_unknown(paths, unknown)
    _refuse_mixture(forms_by_path)
    return _leave_out_evaluations(forms_by_path), unknown


def _files_of_form(paths: Sequence[Path], form: Form) -> dict[Path, Form]:
    files = dict.fromkeys(_files(paths, (".jsonl", ".parquet", ".csv")), form)
    if not files:
        raise InputError(f"{paths[0]}: no .jsonl, .parquet or .csv file; name one")
    return files


def completions_of(
    form: Form, records: Records
) -> Iterator[tuple[RecordPosition, Completion]]:
    """Read the completions of records."""
    for record in records:
        for completion in form.read(record):
            yield record.position, completion


def _digest(completion: Completion) -> int:
    """Hash what a copy repeats: all but the step."""
    rewards = tuple(map(repr, completion.rewards.values()))
    return hash((completion.prompt, completion.text, rewards, repr(completion.advantage)))


def _add_file(
    path: Path, form: Form, source: Source, collector: Collector, before: list[int]
) -> list[int]:
    """Collect a file's completions, unless they repeat those of the hashes `before`.

    Return their hashes, of TRL's form alone.
    """
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
        beside_traces = form is prime_rl.EXPORTS and source.form is not form
        target = exports if beside_traces else collector
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
    given: Sequence[Path] | pd.DataFrame, columns: ColumnNames | None = None
) -> Log:
    """Read a log: folders and files, or a data frame, with the user's names of columns."""
    form = form_of_columns(columns) if columns else None
    if isinstance(given, pd.DataFrame):
        log = _read_frame(given, form)
    else:
        if form is None:
            forms_by_path, unknown = _recognise_files(given)
        else:
            forms_by_path, unknown = _files_of_form(given, form), []
        complete = [form for form in forms_by_path.values() if form is not prime_rl.EXPORTS]
        form = complete[0] if complete else prime_rl.EXPORTS
        name = ", ".join(map(str, given))
        log = _read_files(Source(name, form, forms=forms_by_path, unknown=unknown))
    if not len(log.columns.step_N):
        raise InputError(f"{log.source.name}: no completions; let the trainer write some")
    return log
