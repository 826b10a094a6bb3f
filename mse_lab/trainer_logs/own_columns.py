"""Columns of any file under the names of the general form: `prompt=q,reward=r`."""

from collections.abc import Iterator, Mapping, Sequence

from mse_lab.errors import InputError, nearest, shown
from mse_lab.trainer_logs import plain
from mse_lab.trainer_logs.completion import Completion, Form, Place, Record, field

Columns = Mapping[str, Sequence[str]]


def _refuse(what: str, remedy: str) -> InputError:
    return InputError(f"columns {what}: {remedy}")


def check_columns(given: Mapping[str, str | Sequence[str]]) -> Columns:
    """Check which columns are named, and under which of our names.

    Raises:
        InputError: One is not of ours, is named twice, or is missing.
    """
    if not isinstance(given, Mapping):
        raise _refuse(shown(given), "give a mapping: {'prompt': ..., 'reward': ...}")
    columns: dict[str, list[str]] = {}
    for ours, names in given.items():
        theirs = [names] if isinstance(names, str) else [*names]
        if ours not in plain.KEYS:
            raise _refuse(shown(ours), nearest(ours, plain.KEYS))
        if not theirs or not all(theirs) or (len(theirs) > 1 and ours != "reward"):
            raise _refuse(shown(ours), "give the name of one column: prompt=question")
        columns[ours] = theirs
    for needed in ("prompt", "reward"):
        if needed not in columns:
            raise _refuse(f"without {needed}", "give prompt=...,reward=...")
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
    needs = tuple(name for names in columns.values() for name in names)

    def read(record: Record, where: Place) -> Iterator[Completion]:
        renamed = {ours: field(record, names[0], where) for ours, names in columns.items()}
        rewards = columns["reward"]
        if len(rewards) > 1:
            renamed["rewards"] = {name: field(record, name, where) for name in rewards}
        elif isinstance(renamed["reward"], list):
            renamed["rewards"] = renamed.pop("reward")
        return plain.FORM.read(renamed, where)

    return Form(name="your columns", needs=needs, read=read)
