"""A completion of a log, in one form for all trainers, and how its values are read.

A trainer's `Form` makes completions of its records. It names the key of each value
(`read_completion`), or says which tokens of a whole sequence were drawn (`cut_out`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from mse_lab.arrays import LARGEST
from mse_lab.errors import InputError, shorten, shown

_NUMBERS = {int, float, bool, type(None)}  # Types of the entries of a list of numbers.
_WORDS = {"true": 1, "false": 0} | dict.fromkeys(("na", "none", "null"), math.nan)


class RecordPosition(NamedTuple):
    """Where a record stands in a file, for messages."""

    path: str
    unit: str  # What is counted: lines, rows or samples.
    number: int

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.number}"


class Record(dict[str, Any]):
    """A record of a log, with its position in the file."""

    def __init__(self, values: Mapping[str, Any], position: RecordPosition) -> None:
        super().__init__(values)
        self.position = position


class Completion(NamedTuple):
    """What a log says of a completion; None where it says nothing."""

    prompt: str  # Identifies the prompt: an id, or its text or tokens.
    rewards: Mapping[str, float]  # By reward function; NaN where it gave none.
    step: int | None = None  # The training step.
    group: str | None = None  # Identifies the group among those of its prompt and step.
    shown: Any = None  # The prompt as a text or messages.
    prompt_tokens: Sequence[int] | None = None  # The token ids of the prompt.
    text: str | None = None  # The completion's text.
    # Its token ids, those of tools and environments included.
    tokens: Sequence[int] | None = None
    # For each token whether the policy drew it; None if the policy drew all of them.
    mask: Sequence[int] | None = None
    log_probs: Sequence[float] | None = None  # Of each token, by the sampler.
    trainer_log_probs: Sequence[float] | None = None  # The same, by the trainer.
    length: int | None = None  # Number of tokens that the policy drew.
    truncated: bool | None = None  # Whether the limit on its length cut it.
    advantage: float | None = None  # The trainer's.


def drawn_part(mask: Sequence[float]) -> slice:
    """Give the range from the first token that the policy drew to the last one.

    The policy drew one token or more.

    >>> drawn_part([0, 0, 1, 0, 1, 0])
    slice(2, 5, None)
    """
    positions = [position for position, drawn in enumerate(mask) if drawn]
    return slice(positions[0], positions[-1] + 1)


@dataclass(frozen=True)
class Form:
    """How a trainer writes its rollouts."""

    name: str  # The trainer's, or the file's.
    needs: tuple[str, ...]  # The keys by which its records are recognised.
    # Makes the completions of a record.
    read: Callable[[Record], Iterator[Completion]]
    # The trainer's settings of a step, with `{prompts}`, `{size}` and `{completions}`.
    batch_keys: str = ""
    note: str = ""  # What its records do not say.


def field(record: Record, key: str) -> Any:
    """Take a value that every record of a form has."""
    if key not in record:
        raise InputError(
            f"{record.position}: {key} is missing; the record has "
            f"{shorten(', '.join(record))}: repair the line, or leave it out"
        )
    return record[key]


def _fault(value: Any, key: str, position: RecordPosition, remedy: str) -> InputError:
    return InputError(f"{position}: {key} = {shown(value)}: give {remedy}")


def as_number(value: Any) -> int | float | None:
    """Read a number, or the text of one, as CSV has it; None where it is neither.

    >>> as_number("0.50"), as_number("True"), as_number("007"), as_number("good")
    (0.5, 1, 7, None)
    """
    if isinstance(value, str):
        word = value.strip().lower()
        for read in (_WORDS.__getitem__, int, float):
            with suppress(KeyError, ValueError):
                return read(word)
    return value if isinstance(value, int | float) else None


def reward_of(value: Any, key: str, position: RecordPosition) -> float:
    """Read a reward; NaN where the trainer gave none."""
    number = math.nan if value is None else as_number(value)
    if number is None:
        raise _fault(value, key, position, "a number")
    if not (abs(number) <= LARGEST or number != number):
        raise _fault(value, key, position, f"a number of at most {LARGEST:g}")
    return float(number)


def name_of(value: Any, key: str, position: RecordPosition) -> str:
    """Turn a text, a number, a list or messages into the name of a prompt or group."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise _fault(value, key, position, "a text or an id")
    return repr(value)


def _value_or_none(record: Record, key: str) -> Any:
    """Take a value that may be missing; tables write NaN for None."""
    value = record.get(key)
    return None if value != value else value


def whole_number(record: Record, key: str) -> int | None:
    """Read a whole number, 0 or more, that may be missing."""
    value = _value_or_none(record, key)
    if value is None:
        return None
    number = as_number(value)
    if number is None or not 0 <= number < 2**53 or number % 1:
        raise _fault(value, key, record.position, "a whole number from 0")
    return int(number)


def numbers_of(record: Record, key: str) -> Sequence[Any] | None:
    """Read a list of numbers that may be missing."""
    value = _value_or_none(record, key)
    if value is None:
        return None
    if not isinstance(value, list) or not set(map(type, value)) <= _NUMBERS:
        raise _fault(value, key, record.position, "a list of numbers")
    return value


def token_ids(record: Record, key: str) -> Sequence[int] | None:
    """Read a list of token ids that may be missing."""
    value = numbers_of(record, key)
    if value is not None and not set(map(type, value)) <= {int}:
        raise _fault(value, key, record.position, "a list of token ids")
    return value


def _flag(record: Record, key: str) -> bool | None:
    value = _value_or_none(record, key)
    number = as_number(value)
    if value is not None and number not in (0, 1):
        raise _fault(value, key, record.position, "true or false")
    return None if value is None else bool(number)


def _text(record: Record, key: str) -> str | None:
    """Read a text, or messages, that may be missing."""
    value = record.get(key)
    return value if value is None or isinstance(value, str) else repr(value)


def _group(record: Record, key: str) -> str | None:
    value = record.get(key)
    return None if value is None else name_of(value, key, record.position)


# How the value of each field of a completion is read from a key of a record.
_READERS: dict[str, Callable[[Record, str], Any]] = {
    "prompt": lambda record, key: name_of(field(record, key), key, record.position),
    "rewards": lambda record, key: {
        key: reward_of(field(record, key), key, record.position)
    },
    "step": whole_number,
    "group": _group,
    "shown": field,
    "prompt_tokens": token_ids,
    "text": _text,
    "tokens": token_ids,
    "mask": numbers_of,
    "log_probs": numbers_of,
    "trainer_log_probs": numbers_of,
    "length": whole_number,
    "truncated": _flag,
    "advantage": lambda record, key: reward_of(record.get(key), key, record.position),
}


def read_completion(record: Record, keys: Mapping[str, str], **computed: Any) -> Completion:
    """Make a completion of a record.

    `keys` says under which key of the record each field stands; other fields are given as
    they are.
    """
    read = {name: _READERS[name](record, key) for name, key in keys.items()}
    return Completion(**{**read, **computed})


def cut_out(
    record: Record,
    keys: Mapping[str, str],
    tokens: Sequence[int],
    mask: Sequence[int],
    **computed: Any,
) -> Completion:
    """Make a completion of a prompt's and its own tokens in one sequence.

    The mask says which tokens the policy drew, one or more; the prompt ends before the
    first of these. `keys` says under which key of the record the fields with a number for
    each token stand; other fields are given as they are.
    """
    part = drawn_part(mask)
    read: dict[str, Any] = {name: numbers_of(record, key) for name, key in keys.items()}
    return Completion(
        prompt=repr(list(tokens[: part.start])),
        prompt_tokens=tokens[: part.start],
        tokens=tokens[part],
        mask=mask[part],
        **{name: values and values[part] for name, values in read.items()},
        **computed,
    )
