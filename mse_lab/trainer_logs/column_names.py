"""Column names of any file, given for those of the general form: `prompt=q,reward=r`."""

from collections.abc import Iterator, Mapping, Sequence

from mse_lab.errors import InputError, nearest, shown
from mse_lab.trainer_logs.completion import Completion, Form, Record, field
from mse_lab.trainer_logs.forms import JSONL, KEYS

# Name in the general form -> names in the file, one; of `reward` one or several.
ColumnNames = Mapping[str, Sequence[str]]


def check_columns(given: Mapping[str, str | Sequence[str]]) -> ColumnNames:
    """Check that a user's names of columns are complete and stand under known names."""
    if not isinstance(given, Mapping):
        remedy = "give a mapping: {'prompt': ..., 'reward': ...}"
        raise InputError(f"columns {shown(given)}: {remedy}")
    columns: dict[str, list[str]] = {}
    for ours, names in given.items():
        theirs = [names] if isinstance(names, str) else [*names]
        if ours not in KEYS:
            raise InputError(f"columns {shown(ours)}: {nearest(ours, KEYS)}")
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


def form_of_columns(columns: ColumnNames) -> Form:
    """Make the form of files whose columns have these names."""

    def read(record: Record) -> Iterator[Completion]:
        renamed = {ours: field(record, names[0]) for ours, names in columns.items()}
        rewards = columns["reward"]
        if len(rewards) > 1:
            renamed["rewards"] = {name: field(record, name) for name in rewards}
        elif isinstance(renamed["reward"], list):
            renamed["rewards"] = renamed.pop("reward")
        return JSONL.read(Record(renamed, record.position))

    return Form("your columns", sum(map(tuple, columns.values()), ()), read)
