"""Read a log: all completions of a folder, files, or a data frame, as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mse_lab.errors import InputError
from mse_lab.trainer_logs import forms
from mse_lab.trainer_logs.collect import Collector, Columns
from mse_lab.trainer_logs.completion import Completion, Form, RecordPosition
from mse_lab.trainer_logs.find_logs import Source, find_logs, steps_by_prompts
from mse_lab.trainer_logs.general_form import ColumnNames, form_of_columns
from mse_lab.trainer_logs.records import Records, records_of, records_of_frame


@dataclass(frozen=True)
class Log:
    """A log: what was read, its completions, and the token exports of prime-rl."""

    source: Source
    columns: Columns
    exports: Columns | None = None


def _training_tables(records: Records, source: Source | None) -> Records:
    """Leave out tables of ms-swift that did not train, and list them in a source.

    `GRPOTrainer.log` writes one for each line of the log, with the last completions drawn:
    that of an evaluation stands behind the one of its step; later ones may repeat either.
    """
    before, step, evaluated = None, None, False
    for record in records:
        at = record.get("step")
        if not isinstance(at, list):
            yield record
            continue
        table = [record.get(key) for key in ("prompt", "completion", "advantages")]
        repeats = table == before
        evaluated = evaluated if repeats else at[:1] == step
        before, step = table, at[:1]
        if not (repeats or evaluated):
            yield record
        elif source is not None and evaluated:
            source.evaluations.append(str(record.position))
        elif source is not None:
            source.copies += 1


def completions_of(
    form: Form, records: Records, source: Source | None = None
) -> Iterator[tuple[RecordPosition, Completion]]:
    """Read the completions of records; list in a source what is left out of them."""
    if form.name == "ms-swift":
        records = _training_tables(records, source)
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
    """Collect a file's completions unless they repeat `before`; give TRL's hashes."""
    start, digests = len(collector), []
    records = records_of(path, source.damaged)
    for where, completion in completions_of(form, records, source):
        collector.add(completion, where)
        if form is forms.TRL:
            digests.append(_digest(completion))
    if digests and digests == before:
        collector.drop_from(start)
        source.copies += 1
    return digests


def _evaluations(source: Source) -> list[list[int]]:
    """Give the hashes of evaluations, which TRL's files repeat till it draws a batch."""
    if source.form is not forms.TRL:
        return []
    read = (records_of(Path(path), []) for path in source.evaluations)
    return [[_digest(one) for _, one in completions_of(forms.TRL, each)] for each in read]


def _read_files(source: Source) -> Log:
    collector, exports, digests = Collector(), Collector(), list[int]()
    evaluations = _evaluations(source)
    for path, form in source.forms.items():
        beside_traces = form is forms.EXPORTS and source.form is not form
        target = exports if beside_traces else collector
        start = len(target)
        digests = _add_file(path, form, source, target, digests)
        if digests in evaluations:
            target.drop_from(start)
            source.evaluations.append(str(path))
            digests = []
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


def _without_evaluations(log: Log) -> Log:
    """Leave out the steps of TRL's log whose prompts show an evaluation."""
    source, columns = log.source, log.columns
    if source.form is not forms.TRL or source.state is not None:
        return log
    evaluated = steps_by_prompts(columns)
    source.evaluations += [f"step {step}" for step in evaluated]
    return Log(source, columns.keep(~np.isin(columns.step_N, evaluated)), log.exports)


def read_log(
    given: Sequence[Path] | pd.DataFrame, columns: ColumnNames | None = None
) -> Log:
    """Read a log: folders and files, or a data frame, with the user's names of columns."""
    form = form_of_columns(columns) if columns else None
    if isinstance(given, pd.DataFrame):
        log = _read_frame(given, form)
    else:
        log = _read_files(find_logs(given, form))
    log = _without_evaluations(log)
    if not len(log.columns.step_N):
        raise InputError(f"{log.source.name}: no completions; let the trainer write some")
    return log
