"""Columns of any file under the names of the general form: `prompt=q,reward=r`."""

from collections.abc import Iterator, Mapping, Sequence

from mse_lab.errors import InputError, nearest, shown
from mse_lab.trainer_logs.completion import Completion, Form, Place, Record, field
from mse_lab.trainer_logs.forms import JSONL, KEYS

Columns = Mapping[str, Sequence[str]]


def check_columns(given: Mapping[str, str | Sequence[str]]) -> Columns:
    """Check which columns are named, and under which of our names."""
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


def parse_columns(text: str) -> Columns:
    """Read what `--columns` gives; several columns of rewards are as many functions.

    >>> parse_columns("prompt=question,reward=exact,reward=format")
    {'prompt': ['question'], 'reward': ['exact', 'format']}
    """
    columns: dict[str, list[str]] = {}
    for part in text.split(","):
        ours, _, theirs = (word.strip() for word in part.partition("="))
        columns.setdefault(ours, []).append(theirs)
    return check_columns(columns)


def form_of(columns: Columns) -> Form:
    """Make the form whose columns have these names."""

    def read(record: Record, where: Place) -> Iterator[Completion]:
        renamed = {ours: field(record, names[0], where) for ours, names in columns.items()}
        rewards = columns["reward"]
        if len(rewards) > 1:
            renamed["rewards"] = {name: field(record, name, where) for name in rewards}
        elif isinstance(renamed["reward"], list):
            renamed["rewards"] = renamed.pop("reward")
        return JSONL.read(renamed, where)

    return Form("your columns", sum(map(tuple, columns.values()), ()), read)
