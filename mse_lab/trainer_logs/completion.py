"""A completion of a log, in one form for all trainers, and how its values are read.

A trainer's `Form` makes completions of its records. It names the key of each value
(`read_completion`), or says which tokens of a whole sequence were drawn (`cut_out`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

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


class Record(dict[str, Any]):
    """A record of a log, whose values are read, or refused by its position in the file."""

    def __init__(self, values: Mapping[str, Any], position: RecordPosition) -> None:
        super().__init__(values)
        self.position = position

    def like(self, values: Mapping[str, Any]) -> "Record":
        """Make a record of other values in the same position."""
        return Record(values, self.position)

    def fault(self, value: Any, key: str, remedy: str) -> InputError:
        """Say that a value cannot be used."""
        return InputError(f"{self.position}: {key} = {shown(value)}: give {remedy}")

    def field(self, key: str) -> Any:
        """Take a value that every record of a form has."""
        if key not in self:
            raise InputError(
                f"{self.position}: {key} is missing; the record has "
                f"{shorten(', '.join(self))}: repair the line, or leave it out"
            )
        return self[key]

    def reward_of(self, value: Any, key: str) -> float:
        """Read a reward; NaN where the trainer gave none."""
        number = math.nan if value is None else as_number(value)
        if number is None:
            raise self.fault(value, key, "a number")
        if not (abs(number) <= LARGEST or number != number):
            raise self.fault(value, key, f"a number of at most {LARGEST:g}")
        return float(number)

    def name_of(self, value: Any, key: str) -> str:
        """Turn a text, a number, a list or messages into the name of a prompt or group."""
        if isinstance(value, str):
            return value
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise self.fault(value, key, "a text or an id")
        return repr(value)

    def _value_or_none(self, key: str) -> Any:
        """Take a value that may be missing; tables write NaN for None."""
        value = self.get(key)
        return None if value != value else value

    def whole_number(self, key: str) -> int | None:
        """Read a whole number, 0 or more, that may be missing."""
        value = self._value_or_none(key)
        if value is None:
            return None
        number = as_number(value)
        if number is None or not 0 <= number < 2**53 or number % 1:
            raise self.fault(value, key, "a whole number from 0")
        return int(number)

    def numbers(self, key: str) -> Sequence[Any] | None:
        """Read a list of numbers that may be missing."""
        value = self._value_or_none(key)
        if value is None:
            return None
        if not isinstance(value, list) or not set(map(type, value)) <= _NUMBERS:
            raise self.fault(value, key, "a list of numbers")
        return value

    def token_ids(self, key: str) -> Sequence[int] | None:
        """Read a list of token ids that may be missing."""
        value = self.numbers(key)
        known = value is None or set(map(type, value)) <= {int}
        if not known or max(map(abs, value or ()), default=0) >= 2**53:
            raise self.fault(value, key, "a list of token ids")
        return value

    def _flag(self, key: str) -> bool | None:
        value = self._value_or_none(key)
        number = as_number(value)
        if value is not None and number not in (0, 1):
            raise self.fault(value, key, "true or false")
        return None if value is None else bool(number)

    def _text(self, key: str) -> str | None:
        value = self.get(key)
        return value if value is None or isinstance(value, str) else repr(value)

    def _group(self, key: str) -> str | None:
        value = self.get(key)
        return None if value is None else self.name_of(value, key)

    # How the value of each field of a completion is read from a key of a record.
    _READERS: ClassVar[dict[str, Callable[["Record", str], Any]]] = {
        **dict.fromkeys(("step", "length"), whole_number),
        **dict.fromkeys(("tokens", "prompt_tokens"), token_ids),
        **dict.fromkeys(("mask", "log_probs", "trainer_log_probs"), numbers),
        **{"shown": field, "group": _group, "text": _text, "truncated": _flag},
        "prompt": lambda self, key: self.name_of(self.field(key), key),
        "rewards": lambda self, key: {key: self.reward_of(self.field(key), key)},
        "advantage": lambda self, key: self.reward_of(self.get(key), key),
    }

    def completion(self, keys: Mapping[str, str], **computed: Any) -> Completion:
        """Make a completion: fields by their `keys` in the record, others `computed`."""
        read = {name: self._READERS[name](self, key) for name, key in keys.items()}
        return Completion(**{**read, **computed})

    def cut_out(
        self,
        keys: Mapping[str, str],
        tokens: Sequence[int],
        mask: Sequence[int],
        **computed: Any,
    ) -> Completion:
        """Make a completion of a sequence, whose `keys` have a number for each token."""
        part = drawn_part(mask)
        read: dict[str, Any] = {name: self.numbers(key) for name, key in keys.items()}
        return Completion(
            prompt=repr(list(tokens[: part.start])),
            prompt_tokens=tokens[: part.start],
            tokens=tokens[part],
            mask=mask[part],
            **{name: values and values[part] for name, values in read.items()},
            **computed,
        )


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
