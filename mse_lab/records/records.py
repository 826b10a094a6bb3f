"""One record of a completion: what files say of it, under one name and of one type each.

| name | meaning |
|---|---|
| `prompt_id`, `prompt` | what identifies a prompt; its text, messages or token ids |
| `step`, `group` | the training step; what identifies a group of a prompt and step |
| `completion`, `token_ids` | the text; the token ids, those of tools and environments too |
| `mask` | 1 for each token that the policy drew, 0 for others |
| `reward`, `rewards` | the total; by reward function, where their sum is the total |
| `truncated`, `length` | whether the limit on its length cut it; its tokens by the policy |
| `log_probs`, `engine_log_probs` | of each token: the model's; the drawing engine's |
| `log_prob` | of the whole completion, by the model |
| `advantage`, `pool` | the trainer's; that of a run, `reference` or `replicate` |

`SCHEMA` has the types; rewards by function are columns `rewards.NAME`. A row is one
completion: a list of rewards is refused.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mse_lab.arrays import LARGEST
from mse_lab.errors import InputError, shown
from mse_lab.records.plain_text import step_into
from mse_lab.records.rows import ColumnValues, Rows, listed

# Other names of files that are read without a mapping.
SYNONYMS = {
    **dict.fromkeys(("text", "response", "output"), "completion"),
    **dict.fromkeys(("tokens", "completion_ids"), "token_ids"),
}

IDENTITIES = ("prompt_id", "prompt", "group", "step")  # Every row has them, or none.
PART = "rewards."  # Begins the name of a reward function's column.

MOST_TOKEN = 2**53  # Whole numbers below it are floats, too.
# No token that was drawn has a log-probability of -1e9; of low precision it may be this far
# above 0.
LEAST_LOG, MOST_LOG = -1e9, 0.1

_WORDS = {"true": 1.0, "false": 0.0} | dict.fromkeys(
    ("", "na", "nan", "none", "null"), None
)
_EACH = "the one reward of a completion, and a line for each completion"
# How engines say why a completion ended.
_ENDINGS = {
    **dict.fromkeys(("length", "truncated"), 1.0),
    **dict.fromkeys(("stop", "eos", "tool_calls", "end_turn", "completed"), 0.0),
}


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        word = value.strip().lower()
        if not word.isascii() or "_" in word:  # Python reads 1_0 as 10.
            raise ValueError
        return _WORDS[word] if word in _WORDS else float(word)
    if isinstance(value, int | float):
        return float(value)
    raise ValueError


def _whole_number(value: Any) -> int | None:
    number = _number(value)
    if number is None or number != number:
        return None
    if not abs(number) < MOST_TOKEN or number % 1:
        raise ValueError
    return int(number)


def _text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    if not isinstance(value, str):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text: str = value.encode(errors="backslashreplace").decode()
    return text


def _flag(value: Any) -> bool | None:
    number = _ENDINGS.get(value) if isinstance(value, str) else None
    number = _number(value) if number is None else number
    if number not in (0, 1, None):
        raise ValueError
    return None if number is None else bool(number)


def _list_of(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_list(value: Any) -> list[Any]:
        value = json.loads(value) if isinstance(value, str) else value
        if not isinstance(value, list | tuple):
            raise ValueError
        return [None if one is None else read(one) for one in value]

    return read_list


class _Kind(NamedTuple):
    """The values of a name: their type, how one is read, and what it is, for messages."""

    type: pa.DataType
    read: Callable[[Any], Any]
    what: str
    low: float = -math.inf
    high: float = math.inf


_ID = _Kind(pa.string(), _text, "a text or an id")
_COUNT = _Kind(pa.int64(), _whole_number, "a whole number from 0", 0, MOST_TOKEN)
_REWARD = _Kind(
    pa.float64(), _number, f"a number of at most {LARGEST:g}", -LARGEST, LARGEST
)
_IDS = _Kind(pa.list_(pa.int64()), _list_of(_whole_number), "a list of token ids, [1, 2]")
_LOGS = _Kind(
    *(pa.list_(pa.float64()), _list_of(_number), "a list of log-probabilities, [-1.5]"),
    *(LEAST_LOG, -LEAST_LOG),  # Of masked tokens they may be any number.
)
SCHEMA: dict[str, _Kind] = {
    **dict.fromkeys(("prompt_id", "prompt", "group", "pool"), _ID),
    "completion": _ID._replace(what="a text"),
    **dict.fromkeys(("step", "length"), _COUNT),
    **dict.fromkeys(("reward", "advantage"), _REWARD),
    "log_prob": _REWARD._replace(what="a log-probability", low=LEAST_LOG, high=MOST_LOG),
    "token_ids": _IDS,
    "mask": _IDS._replace(what="a list of 0 and 1, [0, 1]", low=0, high=1),
    **dict.fromkeys(("log_probs", "engine_log_probs"), _LOGS),
    "truncated": _Kind(pa.bool_(), _flag, f"true or false, or {', '.join(_ENDINGS)}"),
}
RECORD_NAMES = (*SCHEMA, "rewards")


def _fault(where: str, column: str, value: Any, remedy: str) -> InputError:
    return InputError(f"{where}: {column} = {shown(value)}: give {remedy}")


def _convert(values: ColumnValues, name: str, column: str, rows: Rows) -> pa.Array:
    """Give the values the type of a record's name; refuse what is none."""
    kind = SCHEMA["reward" if name.startswith(PART) else name]
    array = _cast(values, kind.type)
    if array is None:
        read = []
        for index, value in enumerate(listed(values)):
            try:
                missing = value is None or value is math.nan or value != value
                read.append(None if missing else kind.read(value))
            except (ValueError, OverflowError, TypeError):
                many = is_reward(name) and isinstance(value, list)
                what = _EACH if many else kind.what
                for part in [*value][:1] if isinstance(value, Mapping) else ():
                    what += f", or a part of it: --columns {name}={column}.{part}"
                raise _fault(rows.place(index), column, value, what) from None
        array = pa.array(read, kind.type)
    _refuse_odd(array, name, column, rows)
    return array


def _cast(values: ColumnValues, type_: pa.DataType) -> pa.Array | None:
    """Convert all values at once, where that is exact; else None."""
    try:
        if not isinstance(values, pa.Array):
            values = pa.array(values, from_pandas=True)
        if values.type == type_:
            return _without_nan(values)
        alike = pa.types.is_nested(values.type) == pa.types.is_nested(type_)
        # To Arrow every number but 0 is true, and a date is a number.
        exact = alike and not pa.types.is_boolean(type_)
        exact &= not pa.types.is_temporal(values.type)
        return _without_nan(values.cast(type_)) if exact else None
    except (pa.ArrowException, UnicodeError, OverflowError):
        return None


def _without_nan(array: pa.Array) -> pa.Array:
    """Put null in the place of NaN."""
    if not pa.types.is_floating(array.type) or not pc.any(pc.is_nan(array)).as_py():
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _refuse_odd(array: pa.Array, name: str, column: str, rows: Rows) -> None:
    """Refuse numbers out of bounds."""
    kind = SCHEMA["reward" if name.startswith(PART) else name]
    if kind.high == math.inf:
        return
    flat = array.flatten() if pa.types.is_list(array.type) else array
    numbers = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=float)
    for at in np.flatnonzero((numbers < kind.low) | (numbers > kind.high))[:1].tolist():
        row = at if flat is array else pc.list_parent_indices(array)[at].as_py()
        raise _fault(rows.place(row), column, flat[at].as_py(), kind.what)


def find_column(rows: Rows, name: str) -> ColumnValues | None:
    """Give the values of a column; `a.b` is b of what a holds, `a.0` the first."""
    if name in rows.columns:
        return rows.columns[name]
    top, *keys = name.split(".")
    if not keys or top not in rows.columns:
        return None
    return [reduce(step_into, keys, value) for value in listed(rows.columns[top])]


def own_columns(names: Iterable[str]) -> dict[str, str]:
    """Give the columns that have a record's names; a synonym where it is the only one.

    >>> own_columns(["prompt", "tokens", "text", "output"])
    {'prompt': 'prompt', 'token_ids': 'tokens'}
    """
    known = {name: name for name in names if name in RECORD_NAMES}
    synonyms = {name: SYNONYMS[name] for name in names if name in SYNONYMS}
    given = [*known, *synonyms.values()]
    only = {ours: name for name, ours in synonyms.items() if given.count(ours) == 1}
    return known | only


def is_reward(name: str) -> bool:
    """Whether a name is that of a reward, or of rewards by function."""
    return name in ("reward", "rewards") or name.startswith(PART)


def read_records(rows: Rows, columns: Mapping[str, str]) -> dict[str, pa.Array]:
    """Read records by their names; `columns` are the file's, by the names of a record."""
    cells = {name: find_column(rows, column) for name, column in columns.items()}
    values = {name: given for name, given in cells.items() if given is not None}
    if "rewards" in values:
        values |= _by_function(rows, values.pop("rewards"), columns["rewards"])
    typed = {
        name: _convert(given, name, columns.get(name, name), rows)
        for name, given in values.items()
    }
    # A column of nothing is no column; of rewards it says that there are none.
    return {
        name: array
        for name, array in typed.items()
        if array.null_count < len(array) or is_reward(name)
    }


def _by_function(rows: Rows, given: ColumnValues, column: str) -> dict[str, ColumnValues]:
    """Take rewards by function apart."""
    values = listed(given)
    for index, one in enumerate(values):
        if not isinstance(one, Mapping | None):
            remedy = _EACH if isinstance(one, list) else "a mapping of rewards by function"
            raise _fault(rows.place(index), column, one, remedy)
    names = dict.fromkeys(str(name) for one in values for name in one or ())
    return {f"{PART}{name}": [(one or {}).get(name) for one in values] for name in names}


def refuse_lengths(rows: Rows, lists: Mapping[str, pa.Array]) -> None:
    """Refuse lists that have not one entry each for a token."""
    first, *names = lists
    length_N, *others = map(pc.list_value_length, lists.values())
    for name, other_N in zip(names, others, strict=True):
        if (at := pc.index(pc.not_equal(length_N, other_N), True).as_py()) >= 0:
            raise InputError(
                f"{rows.place(at)}: {length_N[at]} {first}, {other_N[at]} of {name}; "
                "give one of each for a token"
            )
