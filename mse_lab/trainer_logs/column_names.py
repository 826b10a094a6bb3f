"""Column names of any file, given for those of the general form: `prompt=q,reward=r`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mse_lab.errors import InputError, nearest, shown
from mse_lab.trainer_logs.completion import Completion, Form, Record, field
from mse_lab.trainer_logs.general_form import JSONL, KEYS

# What other forms call these.
OTHER_NAMES = {
    **dict.fromkeys(("completion", "response", "output"), "text"),
    **dict.fromkeys(("prompt_id", "input", "question"), "prompt"),
    **dict.fromkeys(("rewards", "score"), "reward"),
    **dict.fromkeys(("token_ids", "completion_ids"), "tokens"),
}

# Name in the general form -> names in the file, one; of `reward` one or several.
ColumnNames = Mapping[str, Sequence[str]]


def check_columns(given: Mapping[str, str | Sequence[str]]) -> ColumnNames:
    """Check that a user's names of columns are complete and stand under known names."""
    if not isinstance(given, Mapping):
        remedy = "give a mapping: {'prompt': ..., 'reward': ...}"
        raise InputError(f"columns {shown(given)}: {remedy}")
    columns: dict[str, list[str]] = {}
    for ours, names in given.items():
        listed = names if isinstance(names, Sequence) else []
        theirs = [names] if isinstance(names, str) else [*listed]
        if ours not in KEYS:
            remedy = nearest(OTHER_NAMES.get(ours, ours), KEYS)
            raise InputError(f"columns {shown(ours)}: {remedy}")
        if not theirs or not all(theirs) or (len(theirs) > 1 and ours != "reward"):
            remedy = "give the name of one column: prompt=question"
            raise InputError(f"columns {shown(ours)}: {remedy}")
        columns[ours] = theirs
    for needed in ("prompt", "reward"):
        if needed not in columns:
            raise InputError(f"columns without {needed}: give prompt=...,reward=...")
    return columns


def parse_columns(text: str) -> ColumnNames:
    """Parse `--columns`; each column under the name `reward` is a reward function.

    >>> parse_columns("prompt=question,reward=exact,reward=format")
    {'prompt': ['question'], 'reward': ['exact', 'format']}
    """
    columns: dict[str, list[str]] = {}
    for part in text.split(","):
        ours, _, theirs = (word.strip() for word in part.partition("="))
        columns.setdefault(ours, []).append(theirs)
    return check_columns(columns)


def _at(record: Record, name: str) -> Any:
    """Take a value, `reward.score` from the mapping under `reward`."""
    top, _, inner = name.partition(".")
    if name in record or not inner or not isinstance(record.get(top), Mapping):
        return field(record, name)
    return _at(Record(record[top], record.position), inner)


def form_of_columns(columns: ColumnNames) -> Form:
    """Make the form of files whose columns have these names."""

    def read(record: Record) -> Iterator[Completion]:
        renamed = {ours: _at(record, names[0]) for ours, names in columns.items()}
        rewards = columns["reward"]
        if len(rewards) > 1:
            renamed["rewards"] = {name: _at(record, name) for name in rewards}
        return JSONL.read(Record(renamed, record.position))

    return Form("your columns", sum(map(tuple, columns.values()), ()), read)
