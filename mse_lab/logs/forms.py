"""Forms of logs: which columns of a file are those of a record.

TRL's Parquet or a CSV of it, and verl's JSONL, are known by the columns that their sources
write, and a file by the record's own names; the user's `--columns` come before both.
Nothing else is guessed.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.records.records import PART, RECORD_NAMES, SYNONYMS, is_reward

# The names of a record that a log has: not those of a run alone.
NAMES = [name for name in RECORD_NAMES if name not in ("pool", "log_prob")]

# Names of the columns by the names of a record; of `reward` one or several, with weights.
GivenColumns = Mapping[str, Sequence[str]]

# Columns that may tell groups or prompts apart: example_id, uid, prompt_idx, taskId.
_ID = re.compile(r"(?:(?:^|_)(?:id|uid|uuid|guid|idx|index|key|hash)|[a-z]I[dD])$")
_WEIGHTED = re.compile(r"([-+0-9.eE]+)\*(.+)")


@dataclass(frozen=True)
class Form:
    """How a file writes its completions."""

    name: str
    # The file's columns by the names of a record; `rewards.NAME` are reward functions.
    columns: Mapping[str, str]
    weights: Mapping[str, float] = field(default_factory=dict)  # Of reward functions.
    given: frozenset[str] = frozenset()  # The names that the user gave.
    note: str = ""  # What its files do not say.
    blocks: bool = False  # Whether groups are blocks of neighbours, whatever their prompt.
    mixed: bool = False  # Whether the order within a step says nothing.
    numbers_are_parts: bool = False  # Whether all other columns are a reward function's.
    outcome: str = ""  # The part of the reward that says whether a completion is right.

    def wanted(self, names: Sequence[str]) -> Collection[str]:
        """Give the columns of a file that are read: its own, ids, what may come late."""
        if self.numbers_are_parts:
            return names
        tops = {part for column in self.columns.values() for part in _tops(column)}
        tops |= {*NAMES, *SYNONYMS, *self.possible_ids(names)}
        return {name for name in names if name in tops}

    def possible_ids(self, names: Sequence[str]) -> list[str]:
        """List the columns that may tell groups apart, and are not used."""
        used = {*self.columns.values()}
        ids = [name for name in names if _ID.search(name) and name not in used]
        return [] if self.blocks else ids

    def is_given(self, name: str) -> bool:
        """Whether the user named a column; `reward` also by its parts."""
        return bool(self.given & ({"reward", "rewards"} if name == "reward" else {name}))


def _tops(column: str) -> tuple[str, str]:
    return column, column.partition(".")[0]


def _trl(
    where: str, types: Mapping[str, pa.DataType], functions: Sequence[str], *, named: bool
) -> Form | None:
    """`log_completions=True`: `completions/completions_<step>.parquet`.

    Columns in this order: `step`, `prompt`, `completion`, a float for each reward function,
    what a reward function gave to `log_extra`, `advantage`. `functions` are those that
    `trainer_state.json` names; else every float may be one, and in a CSV, whose cells have
    no type, every column. Source: `GRPOTrainer.log` of TRL 1.16; `RLOOTrainer`'s is alike.
    """
    names = ("step", "prompt", "completion", "advantage")
    if not {*names} <= {*types} or not _may_be_float(types["advantage"]):
        return None
    columns = {name: name for name in names}
    extras = {
        "prompt_id": "prompt_id",
        "token_ids": "completion_ids",
        "truncated": "truncated",
    }
    columns |= {name: column for name, column in extras.items() if column in types}
    used = {*columns.values(), ""}
    floats = [name for name, kind in types.items() if _may_be_float(kind)]
    rewards = [name for name in floats if name not in used]
    if functions and {*functions} <= {*rewards}:
        rewards = [name for name in rewards if name in functions]
    elif len(rewards) > 1 and pa.types.is_string(types["advantage"]) and not named:
        raise InputError(f"{where}: {which_rewards(rewards)}")
    columns |= {PART + name: name for name in rewards}
    return Form("TRL", columns, blocks=True)


def which_rewards(names: Sequence[str]) -> str:
    """Ask which of some columns are rewards."""
    return (
        f"which of these columns are rewards: {shorten(', '.join(names) or 'none', 200)}? "
        "No trainer_state.json lies beside the files to tell: give --columns "
        "reward=A,reward=B"
    )


def _may_be_float(kind: pa.DataType) -> bool:
    """Whether a column may hold floats: a CSV's, read as texts, does not say."""
    return bool(pa.types.is_floating(kind) or pa.types.is_string(kind))


_VERL = {"prompt": "input", "completion": "output", "reward": "score", "step": "step"}
NUMBERS = {bool, int, float}  # Types of the values of a part.
_NO_PARTS = {*_VERL.values(), "gts", "uid", "request_id"}


def _verl(names: Collection[str]) -> Form | None:
    """`trainer.rollout_data_dir`: `<step>.jsonl`.

    `input`, `output`, `gts`, `score` and `step`, then whatever the reward function adds, of
    which verl itself takes `acc` for the outcome. Texts are decoded without special tokens.
    `trainer.balance_batch` mixes the order of a step: those of equal `input` are a group,
    or of equal `uid` where it is there. Source: `RayPPOTrainer._dump_generations`.
    """
    if not {*_VERL.values()} <= {*names}:
        return None
    note = "special tokens are stripped: a completion that was cut does not show"
    columns = _VERL | ({"group": "uid"} if "uid" in names else {})
    more: dict[str, Any] = {"mixed": True, "numbers_are_parts": True, "outcome": "acc"}
    return Form("verl", columns, note=note, **more)


def added_columns(form: Form, columns: Mapping[str, Sequence[Any]]) -> dict[str, set[type]]:
    """Give the columns that a reward function added, and the types of their values."""
    if not form.numbers_are_parts or "reward" not in form.columns:
        return {}
    used = {*form.columns.values(), *_NO_PARTS}
    added = {name: values for name, values in columns.items() if name not in used}
    return {name: {*map(type, values)} - {type(None)} for name, values in added.items()}


def _rows(names: Collection[str]) -> Form:
    """A record's own names; a synonym where it is the only one."""
    columns = {name: name for name in NAMES if name in names}
    for ours in {*SYNONYMS.values()} - {*columns}:
        theirs = [name for name in names if SYNONYMS.get(name) == ours]
        if len(theirs) == 1:
            columns[ours] = theirs[0]
    return Form("rows", columns)


def recognise(
    where: str,
    types: Mapping[str, pa.DataType],
    given: GivenColumns,
    functions: Sequence[str] = (),
) -> Form:
    """Find the form of a file by its columns; refuse one that does not tell the rewards.

    >>> known = dict.fromkeys(["input", "output", "gts", "score", "step"], pa.null())
    >>> recognise("1.jsonl", known, {}).name
    'verl'
    """
    if not types:
        raise InputError(
            f"{where}: is empty (no row has a column); let the trainer write its "
            "completions, or name another file"
        )
    named = bool({"reward", "rewards"} & {*given})
    trl = _trl(where, types, functions, named=named)
    form = _apply(trl or _verl(types) or _rows(types), given)
    wanted = [_WEIGHTED.sub(r"\2", one) for theirs in given.values() for one in theirs]
    has = f"its columns are {shorten(', '.join(types), 200)}"
    for column in wanted:
        if not {*_tops(column)} & {*types}:
            raise InputError(f"{where}: has no column {shown(column)}; {has}")
    if any(map(is_reward, form.columns)):
        return form
    raise InputError(
        f"{where}: {has}; which is the reward, and which identifies a prompt or group? "
        "Give --columns prompt_id=...,reward=..., in Python columns={'prompt_id': ..., "
        "'reward': ...} (TRL's Parquet or CSV and verl's JSONL are known by theirs)"
    )


def _apply(form: Form, given: GivenColumns) -> Form:
    """Put the user's columns in the place of the form's."""
    columns, weights = dict(form.columns), dict[str, float]()
    if {"reward", "rewards"} & {*given}:
        columns = {name: one for name, one in columns.items() if not is_reward(name)}
    for name, theirs in given.items():
        if name != "reward" or (len(theirs) == 1 and not _WEIGHTED.fullmatch(theirs[0])):
            columns[name] = theirs[0]
            continue
        for one in theirs:
            weighted = _WEIGHTED.fullmatch(one)
            column = weighted[2] if weighted else one
            if PART + column in columns:
                raise InputError(f"columns reward={one}: {column} is named twice")
            columns[PART + column] = column
            weights[column] = _weight(weighted[1], one) if weighted else 1.0
    return replace(form, columns=columns, weights=weights, given=frozenset(given))


def _weight(text: str, whole: str) -> float:
    try:
        if math.isfinite(weight := float(text)):
            return weight
    except ValueError:
        pass
    raise InputError(f"columns reward={whole}: give a weight, 0.5*format")


def check_columns(given: Any) -> GivenColumns:
    """Check a user's names of columns."""
    if not isinstance(given, Mapping):
        remedy = "give a mapping: {'prompt_id': ..., 'reward': ...}"
        raise InputError(f"columns {shown(given)}: {remedy}")
    columns: dict[str, list[str]] = {}
    for ours, names in given.items():
        listed = [*names] if isinstance(names, Sequence) else []
        theirs = [names] if isinstance(names, str) else listed
        ours = SYNONYMS.get(ours) or ours
        if ours not in NAMES:
            raise InputError(f"columns {shown(ours)}: {nearest(str(ours), NAMES)}")
        if not theirs or not all(one and isinstance(one, str) for one in theirs):
            raise InputError(f"columns {shown(ours)}: give a column: prompt_id=example_id")
        if len(theirs) > 1 and ours != "reward":
            raise InputError(f"columns {shown(ours)}: give one column; only rewards add up")
        columns[ours] = theirs
    return columns


def parse_columns(text: str) -> GivenColumns:
    """Parse `--columns`; several columns of `reward` add up, by their weights.

    >>> parse_columns("prompt_id=uid,reward=exact,reward=0.5*format")
    {'prompt_id': ['uid'], 'reward': ['exact', '0.5*format']}
    """
    columns: dict[str, list[str]] = {}
    for part in text.split(","):
        ours, _, theirs = (word.strip() for word in part.partition("="))
        columns.setdefault(ours, []).append(theirs)
    return check_columns(columns)


def refuse_unseen(form: Form, seen: Collection[str], where: str) -> None:
    """Refuse a nested column that the user named, and that no row has."""
    for name, column in form.columns.items():
        ours = "reward" if name.startswith(PART) else name
        present = any(map(is_reward, seen)) if name == "rewards" else name in seen
        if ours in form.given and "." in column and not present:
            raise InputError(
                f"{where}: no row has {shown(column)}, named by --columns {ours}={column}"
            )
