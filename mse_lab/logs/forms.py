"""Forms of logs: which columns of a file are those of a record.

TRL's Parquet or a CSV of it, and verl's JSONL, are known by the columns that their sources
write, and a file by the record's own names; the user's `--columns` come before both.
Nothing else is guessed.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.records.records import PART, RECORD_NAMES, SYNONYMS, is_reward, own_columns

# The names of a record that a log has: not those of a run alone.
NAMES = [name for name in RECORD_NAMES if name not in ("pool", "log_prob")]

# Columns that may tell groups or prompts apart: example_id, QID, problem-idx, taskId.
_ID = re.compile(r"(?:^|[\W_])(?:[a-z]?id|uuid|guid|idx|index|key|hash|number)$")
# And those of a pass over the prompts, a model or a problem, of which a group has one.
_ONE = re.compile(
    r"(?:^|[\W_])(?:epoch|pass|iter|iteration|step|batch|round|seed|split|run|model|version|"
    r"checkpoint|rank|replica|task|problem|question|example|item)$"
)
_WEIGHTED = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\*(.+)")

# TRL's columns by the names of a record, and those that a reward function may have logged.
_TRL = {name: name for name in ("step", "prompt", "completion", "advantage")}
_TRL_MORE = {"prompt_id": "prompt_id", "token_ids": "completion_ids"}
_VERL = {"prompt": "input", "completion": "output", "reward": "score", "step": "step"}
_VERL_OTHERS = {"gts", "uid", "request_id"}  # Of verl, not of a reward function.


class GivenColumns(NamedTuple):
    """The columns that the user names."""

    columns: Mapping[str, str] = {}  # By the names of a record; `rewards.NAME` add up,
    weights: Mapping[str, float] = {}  # by these weights.

    @property
    def rewards(self) -> bool:
        """Whether they say what the reward is."""
        return any(map(is_reward, self.columns))


@dataclass(frozen=True)
class Form:
    """How a file writes its completions."""

    name: str
    types: Mapping[str, pa.DataType]  # Of all columns of the file, by their names.
    # The file's columns by the names of a record; `rewards.NAME` are reward functions.
    columns: Mapping[str, str]
    blocks: bool = False  # Whether groups are blocks of neighbours, whatever their prompt.
    # Whether the order within a step says nothing, and a reward function added what else
    # there is.
    mixed: bool = False
    outcome: str = ""  # The part of the reward that says whether a completion is right.

    def wanted(self, names: Sequence[str]) -> Collection[str]:
        """Give the columns of a file that are read: its own, ids, what may come late."""
        tops = {*self.used, *NAMES, *SYNONYMS, *self.possible_ids(names)}
        return tops.union(self.added(names)).intersection(names)

    @property
    def used(self) -> set[str]:
        """The columns of a record, and those that nested ones lie in."""
        return {part for column in self.columns.values() for part in _tops(column)}

    def possible_ids(self, names: Collection[str]) -> list[str]:
        """List the columns that may tell groups apart, and are not used."""
        unused = [name for name in names if name not in {*self.columns.values()}]
        ids = [name for name in unused if is_id(name) or _ONE.search(_in_words(name))]
        return [] if self.blocks else ids

    def added(self, names: Collection[str]) -> list[str]:
        """List the columns that a reward function added: parts, if they are numbers."""
        used = {*self.columns.values(), *_VERL.values(), *_VERL_OTHERS}
        parts = self.mixed and "reward" in self.columns
        return [name for name in names if parts and name not in used]


def _in_words(name: str) -> str:
    """Write a name in small letters, its words apart.

    >>> _in_words("taskID"), _in_words("Problem-Id")
    ('task_id', 'problem-id')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def is_id(name: str) -> bool:
    """Whether a column is an id, by its name."""
    return bool(_ID.search(_in_words(name)))


def _tops(column: str) -> tuple[str, str]:
    return column, column.partition(".")[0]


def _trl(
    where: str, types: Mapping[str, pa.DataType], functions: Sequence[str], *, named: bool
) -> Form | None:
    """`log_completions=True`: `completions/completions_<step>.parquet`.

    Columns in this order: `step`, `prompt`, `completion`, a float for each reward function,
    what a reward function gave to `log_extra`, `advantage`. `functions` are those that
    `trainer_state.json` names; else every float may be one, and in a CSV, whose cells have
    no type, every column. Source: `GRPOTrainer.log` of TRL 1.16; `RLOOTrainer` writes none.
    """
    # A CSV's columns, read as texts, may hold floats.
    kinds = pa.types.is_floating, pa.types.is_string
    floats = [name for name, kind in types.items() if any(one(kind) for one in kinds)]
    if not {*_TRL} <= {*types} or "advantage" not in floats:
        return None
    columns = _TRL | {ours: one for ours, one in _TRL_MORE.items() if one in types}
    rewards = [name for name in floats if name and name not in columns.values()]
    if functions and {*functions} <= {*rewards}:
        rewards = [name for name in rewards if name in functions]
    elif len(rewards) > 1 and pa.types.is_string(types["advantage"]) and not named:
        raise InputError(f"{where}: {which_rewards(rewards)}")
    parts = {PART + name: name for name in rewards}
    return Form("TRL", types, columns | parts, blocks=True)


def which_rewards(names: Sequence[str]) -> str:
    """Ask which of some columns are rewards."""
    return (
        f"which of these columns are rewards: {shorten(', '.join(names) or 'none', 200)}? "
        "No trainer_state.json lies beside the files to tell: give --columns "
        "reward=A,reward=B"
    )


def _verl(types: Mapping[str, pa.DataType]) -> Form | None:
    """`trainer.rollout_data_dir`: `<step>.jsonl`.

    `input`, `output`, `gts`, `score` and `step`, then whatever the reward function adds, of
    which verl itself takes `acc` for the outcome. `trainer.balance_batch` mixes the order
    of a step: those of equal `input` are a group, or of equal `uid` where it is there.
    Source: `RayPPOTrainer._dump_generations`.
    """
    if not {*_VERL.values()} <= {*types}:
        return None
    columns = _VERL | ({"group": "uid"} if "uid" in types else {})
    return Form("verl", types, columns, mixed=True, outcome="acc")


def recognise(
    where: str,
    types: Mapping[str, pa.DataType],
    given: GivenColumns,
    functions: Sequence[str] = (),
) -> Form:
    """Find the form of a file by its columns; refuse one that does not tell the rewards.

    Args:
        where: Names the file in messages.
        types: The types of its columns, by their names.
        given: The user's columns, which come before those of the form.
        functions: The reward functions that `trainer_state.json` names.

    >>> known = dict.fromkeys(["input", "output", "gts", "score", "step"], pa.null())
    >>> recognise("1.jsonl", known, GivenColumns()).name
    'verl'
    """
    if not types:
        raise InputError(
            f"{where}: is empty (no row has a column); let the trainer write its "
            "completions, or name another file"
        )
    trl = _trl(where, types, functions, named=given.rewards)
    own = {ours: one for ours, one in own_columns(types).items() if ours in NAMES}
    form = trl or _verl(types) or Form("rows", types, own)
    has = f"its columns are {shorten(', '.join(types), 200)}"
    for column in given.columns.values():
        if not {*_tops(column)} & {*types}:
            raise InputError(f"{where}: has no column {shown(column)}; {has}")
    own = {
        name: column
        for name, column in form.columns.items()
        if not (given.rewards and is_reward(name))
    }
    form = replace(form, columns=own | dict(given.columns))
    if any(map(is_reward, form.columns)):
        return form
    raise InputError(
        f"{where}: {has}; which is the reward, and which identifies a prompt or group? "
        "Give --columns prompt_id=...,reward=..., in Python columns={'prompt_id': ..., "
        "'reward': ...} (TRL's Parquet or CSV and verl's JSONL are known by theirs)"
    )


def check_columns(given: Any) -> GivenColumns:
    """Check a user's names of columns; several of `reward` add up, by their weights.

    >>> check_columns({"prompt_id": "uid", "reward": ["exact", "0.5*format"]}).weights
    {'exact': 1.0, 'format': 0.5}
    """
    if not isinstance(given, Mapping):
        remedy = "give a mapping: {'prompt_id': ..., 'reward': ...}"
        raise InputError(f"columns {shown(given)}: {remedy}")
    columns, weights = dict[str, str](), dict[str, float]()
    for ours, names in given.items():
        theirs = [names] if isinstance(names, str) else names
        if ours not in NAMES:
            raise InputError(f"columns {shown(ours)}: {nearest(str(ours), NAMES)}")
        listed = isinstance(theirs, Sequence) and len(theirs) > 0
        if not listed or not all(one and isinstance(one, str) for one in theirs):
            raise InputError(f"columns {shown(ours)}: give a column: prompt_id=example_id")
        if ours == "reward" and (len(theirs) > 1 or _WEIGHTED.fullmatch(theirs[0])):
            weights = _weights(theirs)
            columns |= {PART + column: column for column in weights}
        elif len(theirs) > 1:
            raise InputError(f"columns {shown(ours)}: give one column; only rewards add up")
        else:
            columns[ours] = theirs[0]
    return GivenColumns(columns, weights)


def _weights(parts: Sequence[str]) -> dict[str, float]:
    """Take `0.5*format` apart: the weights of columns, one where none is given."""
    weights: dict[str, float] = {}
    for part in parts:
        weighted = _WEIGHTED.fullmatch(part)
        column = weighted[2] if weighted else part
        if column in weights:
            raise InputError(f"columns reward={part}: {column} is named twice")
        weights[column] = float(weighted[1]) if weighted else 1.0
        if not math.isfinite(weights[column]):
            raise InputError(f"columns reward={part}: give a weight, 0.5*format")
    return weights


def parse_columns(text: str) -> dict[str, list[str]]:
    """Parse `--columns`.

    >>> parse_columns("prompt_id=uid,reward=exact,reward=0.5*format")
    {'prompt_id': ['uid'], 'reward': ['exact', '0.5*format']}
    """
    columns: dict[str, list[str]] = {}
    for part in text.split(","):
        ours, _, theirs = (word.strip() for word in part.partition("="))
        columns.setdefault(ours, []).append(theirs)
    return columns
