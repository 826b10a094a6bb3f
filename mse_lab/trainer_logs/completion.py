"""A completion of a log, whatever trainer wrote it, and how its values are read."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mse_lab.arrays import LARGEST
from mse_lab.errors import InputError, shorten, shown

Record = Mapping[str, Any]

_NUMBERS = {int, float, bool, type(None)}  # Types of the entries of a list of numbers.


class Place(NamedTuple):
    """Where a record stands."""

    path: str
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.path}, {self.what} {self.number}"


class Completion(NamedTuple):
    """A completion, with what its log says of it; None where it says nothing."""

    prompt: str  # Tells prompts apart: an id, or the text or tokens of the prompt.
    rewards: Mapping[str, float]  # By reward function; NaN where there is none.
    step: int | None = None  # The training step.
    group: str | None = None  # Tells groups of one prompt at one step apart.
    shown: Any = None  # The prompt as a text or messages.
    prompt_tokens: Sequence[int] | None = None  # The token ids of the prompt.
    text: str | None = None  # The completion's text.
    # Its token ids, and those of tools and environments among them.
    tokens: Sequence[int] | None = None
    # For each token whether the policy drew it; None if it drew all.
    mask: Sequence[int] | None = None
    log_probs: Sequence[float] | None = None  # Of each token, where it was drawn.
    # The same by the trainer's own forward pass.
    trainer_log_probs: Sequence[float] | None = None
    length: int | None = None  # Tokens that the policy drew.
    truncated: bool | None = None  # Whether the limit on its length cut it.
    advantage: float | None = None  # What the trainer made of the rewards.


def drawn_part(mask: Sequence[float]) -> slice:
    """Give the tokens from the first to the last that the policy drew, of one or more.

    >>> drawn_part([0, 0, 1, 0, 1, 0])
    slice(2, 5, None)
    """
    places = [at for at, counts in enumerate(mask) if counts]
    return slice(places[0], places[-1] + 1)


@dataclass(frozen=True)
class Form:
    """How a trainer writes its rollouts."""

    name: str  # What it is called.
    needs: tuple[str, ...]  # Keys of its records, by which it is recognised.
    read: Callable[[Record, Place], Iterator[Completion]]  # The completions of a record.
    # The trainer's settings of a step, with `{prompts}`, `{size}` and `{completions}`.
    batch_keys: str = ""
    note: str = ""  # What it does not say.


def field(record: Record, key: str, where: Place) -> Any:
    """Take a value that every record of a form has."""
    if key not in record:
        raise InputError(
            f"{where}: {key} is missing; the record has {shorten(', '.join(record))}: "
            "repair the line, or leave it out"
        )
    return record[key]


def _refuse(value: Any, key: str, where: Place, remedy: str) -> InputError:
    return InputError(f"{where}: {key} = {shown(value)}: give {remedy}")


def reward_of(value: Any, key: str, where: Place) -> float:
    """Read a reward; NaN where the trainer gave none."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise _refuse(value, key, where, "a number")
    if not (abs(value) <= LARGEST or value != value):
        raise _refuse(value, key, where, f"a number of at most {LARGEST:g}")
    return float(value)


def name_of(value: Any, key: str, where: Place) -> str:
    """Make the name of a prompt or group of a text, a number, a list, or messages."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise _refuse(value, key, where, "a text or an id")
    return repr(value)


def _known(record: Record, key: str) -> Any:
    """Take a value that may be missing: None, as a table's NaN."""
    value = record.get(key)
    return None if value != value else value


def whole_number(record: Record, key: str, where: Place) -> int | None:
    """Read a whole number, 0 or more, that may be missing."""
    value = _known(record, key)
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value < 2**53 or value % 1:
        raise _refuse(value, key, where, "a whole number from 0")
    return int(value)


def numbers_of(record: Record, key: str, where: Place) -> Sequence[Any] | None:
    """Read a list of numbers that may be missing."""
    value = _known(record, key)
    if value is None:
        return None
    if not isinstance(value, list) or not set(map(type, value)) <= _NUMBERS:
        raise _refuse(value, key, where, "a list of numbers")
    return value


def token_ids(record: Record, key: str, where: Place) -> Sequence[int] | None:
    """Read a list of token ids that may be missing."""
    value = numbers_of(record, key, where)
    if value is not None and not set(map(type, value)) <= {int}:
        raise _refuse(value, key, where, "a list of token ids")
    return value


def _flag(record: Record, key: str, where: Place) -> bool | None:
    value = _known(record, key)
    if value not in (None, 0, 1):
        raise _refuse(value, key, where, "true or false")
    return None if value is None else bool(value)


def _text(record: Record, key: str, where: Place) -> str | None:
    """Read a text, or messages, that may be missing."""
    value = record.get(key)
    return value if value is None or isinstance(value, str) else repr(value)


def _group(record: Record, key: str, where: Place) -> str | None:
    value = record.get(key)
    return None if value is None else name_of(value, key, where)


# How the value of each field of a completion is read.
_READERS: dict[str, Callable[[Record, str, Place], Any]] = {
    "prompt": lambda record, key, where: name_of(field(record, key, where), key, where),
    "rewards": lambda record, key, where: {
        key: reward_of(field(record, key, where), key, where)
    },
    **{"step": whole_number, "length": whole_number, "group": _group, "text": _text},
    **{"shown": field, "prompt_tokens": token_ids, "tokens": token_ids},
    **dict.fromkeys(("mask", "log_probs", "trainer_log_probs"), numbers_of),
    "truncated": _flag,
    "advantage": lambda record, key, where: reward_of(record.get(key), key, where),
}


def read_completion(
    record: Record, where: Place, keys: Mapping[str, str], **known: Any
) -> Completion:
    """Make a completion of a record: of `keys`, field -> key, and of known fields."""
    read = {name: _READERS[name](record, key, where) for name, key in keys.items()}
    return Completion(**{**read, **known})


def cut_out(
    record: Record,
    where: Place,
    keys: Mapping[str, str],
    tokens: Sequence[int],
    mask: Sequence[int],
    **known: Any,
) -> Completion:
    """Make a completion of a sequence of which a mask, not all 0, says what was drawn.

    `keys` are those of fields with a number for each token.
    """
    part = drawn_part(mask)
    read: dict[str, Any] = {
        name: numbers_of(record, key, where) for name, key in keys.items()
    }
    return Completion(
        prompt=repr(list(tokens[: part.start])),
        prompt_tokens=tokens[: part.start],
        tokens=tokens[part],
        mask=mask[part],
        **{name: values and values[part] for name, values in read.items()},
        **known,
    )
