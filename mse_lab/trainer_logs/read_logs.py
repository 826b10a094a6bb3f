"""Read a log: all completions of a folder, files, or a data frame, as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from mse_lab.errors import InputError
from mse_lab.trainer_logs import own_columns, prime_rl, trl
from mse_lab.trainer_logs.collect import Collector, Columns
from mse_lab.trainer_logs.completion import Completion, Form, Place
from mse_lab.trainer_logs.log_files import find_logs, recognise
from mse_lab.trainer_logs.records import CutLine, Records, records_of, records_of_frame


@dataclass
class Source:
    """What was read.

    Attributes:
        name: The folder or file.
        form: How the trainer writes.
        files: Files that were read.
        forms: The form of each of them.
        unknown: Files of no known form.
        cut_lines: Last lines that were not whole.
        copies: Files that repeat the one before.
        exports: Whether log-probabilities are from files apart.
    """

    name: str
    form: Form
    files: list[Path] = field(default_factory=list)
    forms: dict[Path, Form] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)
    cut_lines: int = 0
    copies: int = 0
    exports: bool = False


@dataclass(frozen=True)
class Log:
    """A log: what was read, its completions, and, of prime-rl, its token exports."""

    source: Source
    columns: Columns
    exports: Columns | None = None


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
            if form is trl.FORM:
                digests.append(_digest(completion))
    except CutLine:
        source.cut_lines += 1
    source.files.append(path)
    if digests and digests == before:
        collector.drop_from(start)
        source.copies += 1
    return digests


def _read_files(forms: dict[Path, Form], source: Source) -> Log:
    collector, exports, digests = Collector(), Collector(), list[int]()
    joined = any(form is not prime_rl.EXPORTS for form in forms.values())
    for path, form in forms.items():
        apart = joined and form is prime_rl.EXPORTS
        target = exports if apart else collector
        digests = _add_file(path, form, source, target, digests)
    source.exports = len(exports) > 0
    return Log(source, collector.finish(), exports.finish() if source.exports else None)


def _read_frame(frame: pd.DataFrame, form: Form) -> Log:
    collector = Collector()
    for where, completion in completions_of(form, records_of_frame(frame)):
        collector.add(completion, where)
    return Log(Source("the data frame", form), collector.finish())


def _form_of_frame(frame: pd.DataFrame) -> Form:
    form = recognise([str(name) for name in frame.columns])
    if form is None:
        raise InputError(
            f"a data frame with columns {', '.join(map(str, frame.columns))}: of no known "
            "form; give columns={'prompt': ..., 'reward': ...}"
        )
    return form


def forms_of(
    paths: Sequence[Path], columns: own_columns.Columns | None
) -> tuple[dict[Path, Form], list[Path]]:
    """Find the files of a log and how each is read."""
    if not columns:
        return find_logs(paths)
    form = own_columns.form_of(columns)
    files = [
        one
        for path in paths
        for one in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if one.suffix in (".jsonl", ".parquet", ".csv") or one in paths
    ]
    if not files:
        raise InputError(f"{paths[0]}: no .jsonl, .parquet or .csv file; name one")
    return dict.fromkeys(files, form), []


def read_log(
    given: Sequence[Path] | pd.DataFrame, columns: own_columns.Columns | None = None
) -> Log:
    """Read a log.

    Args:
        given: Folders and files, or a data frame.
        columns: Names of the columns of one's own form.

    Raises:
        InputError: There is nothing to read, or a record cannot be read.
    """
    if isinstance(given, pd.DataFrame):
        form = own_columns.form_of(columns) if columns else _form_of_frame(given)
        log = _read_frame(given, form)
    else:
        forms, unknown = forms_of(given, columns)
        name = ", ".join(map(str, given))
        first = next((one for one in forms.values() if one is not prime_rl.EXPORTS), None)
        source = Source(name, first or prime_rl.EXPORTS, forms=forms, unknown=unknown)
        log = _read_files(forms, source)
    if not len(log.columns.step_N):
        raise InputError(f"{log.source.name}: no completions; let the trainer write some")
    return log
