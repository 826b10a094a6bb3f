"""Collect completions into a table: a few numbers of each, whatever its length.

| column | of each completion |
|---|---|
| `file`, `prompt`, `group` | the numbers of its file, of its prompt, of its group's name |
| `step` | the training step |
| `reward`, `rewards.NAME` | the total, and that of each reward function |
| `content` | a hash of its tokens or else its text, by which equal ones are found |
| `length`, `characters` | the tokens that the policy drew; the characters of its text |
| `truncated`, `advantage` | 1 where the limit cut it, else 0; the trainer's advantage |
| `tokens`, `log_ratio`, `kl` | the tokens with both log-probabilities; sums over them |
| `others.NAME` | codes of columns that may be ids, and are not used |

A column is there if the log has it; where a completion lacks the number, it is NaN.
`log_ratio` and `kl` sum log rho and its divergence (`mse/mismatch.py`).
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mse_lab.arrays import Floats, Ints
from mse_lab.errors import InputError, one_line, shorten
from mse_lab.mse.mismatch import token_divergences
from mse_lab.records.records import IDENTITIES, MOST_LOG, PART, Records

OTHER = "others."  # Begins the name of the column of an id that is not used.

# How the values of a column are kept: a list of NumPy's arrays would need twice the memory.
_TYPES = {"i4": "i", "i8": "q", "f8": "d"}


@dataclass
class _Names:
    """Numbers of names, from 0 in the order of their first occurrence."""

    known: dict[int, int] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)  # What a reader sees of each.

    def number(self, names: pa.Array) -> Ints:
        """Number the names of an array."""
        coded = names.dictionary_encode()
        numbers = []
        for name in coded.dictionary.to_pylist():
            number = self.known.setdefault(hash(name), len(self.labels))
            if number == len(self.labels):
                self.labels.append(shorten(one_line(name[:1000]), 60))
            numbers.append(number)
        return np.array(numbers, dtype=np.int32)[coded.indices.to_numpy()]


@dataclass
class Collector:
    """A table that grows by some records at a time."""

    prompts: _Names = field(default_factory=_Names)
    identities: frozenset[str] | None = None  # Which of `IDENTITIES` the log has.
    _groups: _Names = field(default_factory=_Names)
    _others: dict[str, _Names] = field(default_factory=dict)
    _texts: list[int] = field(default_factory=list)  # By prompt: the hash of its text.
    _columns: dict[str, "array[Any]"] = field(default_factory=dict)
    _size: int = 0  # Number of completions.

    def add(self, records: Records, file: int, others: Mapping[str, pa.Array]) -> None:
        """Add completions of a file; `others` are columns of it that may be ids."""
        if not records.size:
            return
        self._refuse_other_identities(records)
        columns: dict[str, NDArray[Any]] = {"file": np.full(records.size, file, np.int32)}
        columns |= self._numbers_of_identities(records)
        for name, values in others.items():
            names = self._others.setdefault(name, _Names())
            columns[OTHER + name] = names.number(values).astype(float)
        self._extend(columns | dict(_numbers_of(records)), records.size)

    def _extend(self, columns: Mapping[str, NDArray[Any]], size: int) -> None:
        """Lengthen each column in its place, by NaN where these records lack it."""
        missing = np.full(size, np.nan)
        for name in {**self._columns, **columns}:
            values = columns.get(name, missing)
            if name not in self._columns:
                self._columns[name] = array(_TYPES[values.dtype.str[1:]])
                self._columns[name].frombytes(np.full(self._size, np.nan).tobytes())
            self._columns[name].frombytes(values.tobytes())
        self._size += size

    def finish(self) -> pd.DataFrame:
        """Return the table."""
        table = {
            name: np.frombuffer(column, column.typecode)
            for name, column in self._columns.items()
        }
        return pd.DataFrame(table, copy=False)

    def _refuse_other_identities(self, records: Records) -> None:
        named = frozenset({*IDENTITIES} & {*records.columns})
        self.identities = named if self.identities is None else self.identities
        for name in named ^ self.identities:
            has = ("has", "none") if name in named else ("has no", "some")
            raise InputError(
                f"{records.place(0)}: {has[0]} {name}, and {has[1]} of the rows before; "
                "give it in every row or in none"
            )

    def _numbers_of_identities(self, records: Records) -> Iterator[tuple[str, Ints]]:
        columns = records.columns
        if "group" in columns:
            yield "group", self._groups.number(columns["group"])
        if "step" in columns:
            yield "step", columns["step"].to_numpy()
        names = columns.get("prompt_id", columns.get("prompt"))
        if names is None:
            return
        number_N = self.prompts.number(names)
        if {"prompt_id", "prompt"} <= columns.keys():
            self._refuse_other_text(number_N, records)
        yield "prompt", number_N

    def _refuse_other_text(self, number_N: Ints, records: Records) -> None:
        """Refuse an id that goes with two texts: it counts within a step, perhaps."""
        coded = records.columns["prompt"].dictionary_encode()
        pairs = pd.DataFrame({"id": number_N, "text": coded.indices.to_numpy()})
        texts = coded.dictionary.to_pylist()
        for at, number, text in pairs.drop_duplicates().itertuples():
            if number == len(self._texts):  # A new one: they are numbered in this order.
                self._texts.append(hash(texts[text]))
            elif self._texts[number] != hash(texts[text]):
                name = records.columns["prompt_id"][at].as_py()
                raise InputError(
                    f"{records.place(at)}: prompt_id = {shorten(name)} goes with two "
                    "prompts; --columns prompt_id=prompt if the text identifies them, "
                    "prompt=prompt_id if the id does"
                )


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=float)


def _numbers_of(records: Records) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the numbers that do not depend on other records."""
    columns = records.columns
    for name, values in columns.items():
        if name in ("reward", "advantage", "truncated") or name.startswith(PART):
            yield name, _floats(values.cast(pa.float64()))
    if "completion" in columns:
        yield "characters", _floats(pc.utf8_length(columns["completion"]))
    contents = columns.get("token_ids", columns.get("completion"))
    if contents is not None:
        yield "content", _hashes(contents)
    lengths = columns.get("length", _drawn_tokens(records))
    if lengths is not None:
        yield "length", _floats(lengths)
    if {"log_probs", "engine_log_probs"} <= columns.keys():
        yield from _compare(records).items()


def _hashes(contents: pa.Array) -> Floats:
    if pa.types.is_string(contents.type):
        hashes = np.fromiter(map(hash, contents.to_pylist()), float, len(contents))
    else:
        raw = np.ascontiguousarray(contents.values.to_numpy(zero_copy_only=False))
        ends = pairwise(contents.offsets.to_pylist())
        pieces = (hash(raw[start:end].tobytes()) for start, end in ends)
        hashes = np.fromiter(pieces, float, len(contents))
    return np.where(contents.is_null(), np.nan, hashes)


def _entries(lists: pa.Array) -> tuple[Ints, Floats]:
    """Give the row of each entry of lists, and the entry."""
    return pc.list_parent_indices(lists).to_numpy(), _floats(lists.flatten())


def _drawn_tokens(records: Records) -> pa.Array | None:
    """Count the tokens that the policy drew."""
    tokens, mask = records.columns.get("token_ids"), records.columns.get("mask")
    if mask is None:
        return None if tokens is None else pc.list_value_length(tokens)
    rows, drawn = _entries(mask)
    counts = np.bincount(rows, weights=drawn, minlength=records.size)
    return pa.array(counts, mask=np.asarray(mask.is_null()))


def _refuse_lengths(records: Records, names: Sequence[str]) -> None:
    """Refuse lists of a completion that have different lengths."""
    lengths = [_floats(pc.list_value_length(records.columns[name])) for name in names]
    for other, name in zip(lengths[1:], names[1:], strict=True):
        for at in np.flatnonzero(np.abs(lengths[0] - other) > 0)[:1]:
            raise InputError(
                f"{records.place(int(at))}: {lengths[0][at]:g} {names[0]}, {other[at]:g} "
                f"of {name}; give one of each for a token"
            )


def _compare(records: Records) -> dict[str, Floats]:
    """Compare both log-probabilities of the tokens that the policy drew."""
    names = [
        name
        for name in ("log_probs", "engine_log_probs", "mask")
        if name in records.columns
    ]
    _refuse_lengths(records, names)
    lists = [records.columns[name] for name in names]
    known = lists[0].is_valid()
    for one in lists[1:]:
        known = pc.and_(known, one.is_valid())
    rows = np.flatnonzero(known)
    (at_T, model_T), (_, engine_T), *masks = (_entries(one.filter(known)) for one in lists)
    row_T = rows[at_T]
    for index in np.flatnonzero(np.maximum(model_T, engine_T) > MOST_LOG)[:1]:
        raise InputError(
            f"{records.place(int(row_T[index]))}: {max(model_T[index], engine_T[index]):g} "
            "is no log-probability; give the natural logarithm of each token's probability"
        )
    log_T = model_T - engine_T
    used_T = np.isfinite(log_T)
    for _, mask_T in masks:
        used_T &= mask_T > 0
    log_T, row_T = log_T[used_T], row_T[used_T]
    terms = {
        "tokens": np.ones_like(log_T),
        "log_ratio": log_T,
        "kl": token_divergences(log_T),
    }
    return {
        name: np.bincount(row_T, values_T, records.size).astype(float)
        for name, values_T in terms.items()
    }
