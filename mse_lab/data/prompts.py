"""Prompts: problems, their reference answers and the texts for the model.

They come from a probe's source, from memory, or from a trainer's rows, each of which is
called by its number.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mse_lab.config.probe_files import leaves
from mse_lab.config.prompt_templates import load_template
from mse_lab.config.schema import Fields, Prompts
from mse_lab.data.sources import Row, open_rows
from mse_lab.data.streams import stream
from mse_lab.errors import InputError, shorten, shown
from mse_lab.records.plain_text import fault_of_text, step_into

Record = dict[str, Any]

PROBLEM, PROMPT = "problem", "prompt"  # Our name of a row's problem, and the trainers'.


@dataclass(frozen=True)
class Prompt:
    """One prompt."""

    id: str  # Unique in its set; names the prompt's random streams and its row in tables.
    text: str  # The text for the model, before any chat template; of a chat the last turn.
    category: str  # For tables; may be empty.
    # The whole row of the prompt set, for the reward, with `id`, `problem`, `answer` and
    # `category` under these names.
    record: Mapping[str, Any]
    chat: list[dict[str, Any]] | None = None  # Its messages; None of a text.

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The messages of its chat; those of a text are one turn of the user."""
        return self.chat or [{"role": "user", "content": self.text}]


def is_chat(problem: Any) -> bool:
    """Whether a problem is a chat, messages that have a role and a text each."""
    return (
        isinstance(problem, list)
        and bool(problem)
        and all(isinstance(turn, Mapping) and "role" in turn for turn in problem)
        and all(isinstance(turn.get("content"), str) for turn in problem)
    )


def column_names(values: Mapping[str, Any], above: str = "") -> list[str]:
    """List the columns of a row, those inside of others by dotted names.

    >>> column_names({"answer": "4", "reward_model": {"ground_truth": "4"}})
    ['answer', 'reward_model.ground_truth']
    """
    return [name for name, _ in leaves(values, above=above)]


def column_value(values: Mapping[str, Any], name: str) -> Any:
    """Give a column of a row, by its name or a dotted one; None if there is no such one.

    >>> column_value({"reward_model": {"ground_truth": "4"}}, "reward_model.ground_truth")
    '4'
    """
    if name in values:
        return values[name]
    return reduce(step_into, name.split("."), values)


def plain_value(value: Any) -> Any:
    """Give a value of memory as a file's is: lists of arrays, None for what is missing.

    A number of few digits is what it is written as, not the nearest of 64 bits.

    >>> plain_value(np.array(["4", "four"])), plain_value(float("nan"))
    (['4', 'four'], None)
    >>> plain_value(np.float32(3.14)), plain_value(np.datetime64("2026-01-01", "ns"))
    (3.14, '2026-01-01T00:00:00.000000000')
    """
    value = value[()] if isinstance(value, np.ndarray) else value  # Of no axes, its one.
    if isinstance(value, np.ndarray | pd.Series):
        return [plain_value(one) for one in value]
    if pd.isna(value) is True:
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.floating):
        return float(str(value))
    whole = hasattr(value, "tolist") and not getattr(value, "is_floating_point", bool)()
    return value.tolist() if whole else value


def _choose(row: Row, name: str) -> str:
    names = shorten(", ".join(column_names(row.values)), 500) or "nothing"
    if row.where.startswith("prompts["):  # In memory, where there is no such key.
        return f"call one of {names} {name}"
    return f"set prompts.fields.{name} to one of {names}"


def _required(row: Row, name: str, fields: Fields) -> Any:
    """Return a field of a row; refuse the row if it is missing."""
    field = getattr(fields, name)
    value = plain_value(column_value(row.values, field))
    if value is None or not str(value).strip():
        remedy = "" if field in row.values else f", or {_choose(row, name)}"
        raise InputError(f"{row.where}: {field} is missing or empty; fill it in{remedy}")
    if name not in ("problem", "answer") and isinstance(value, Mapping | list):
        what = "a list" if isinstance(value, list) else "a mapping"
        raise InputError(
            f"{row.where}: {field} = {shown(value)}: {what}, which is no {name}; "
            f"{_choose(row, name)}"
        )
    return value


def _problem(row: Row, fields: Fields) -> Any:
    """Return the problem: a text or number, or a chat. Trainers call it `prompt`."""
    if fields.problem == PROBLEM not in row.values and PROMPT in row.values:
        fields = fields.model_copy(update={"problem": PROMPT})
    problem = _required(row, "problem", fields)
    one_value = isinstance(problem, str) or not isinstance(problem, Iterable)
    if not one_value and not is_chat(problem):
        raise InputError(
            f"{row.where}: {fields.problem} = {shown(problem)}: give a text, or a list of "
            "messages, each with a role and a text as its content"
        )
    return problem


def _category(record: Record) -> str:
    category = record.get("category")
    return "" if category is None else str(category)


def _make_record(row: Row, fields: Fields, name: str, answered: bool) -> Record:
    """Add our names to a row; they replace fields of the same name."""
    numbered = fields.id == "id" and "id" not in row.values
    identity = f"{name}-{row.number:04d}" if numbered else str(_required(row, "id", fields))
    record = row.values | {"id": identity, "problem": _problem(row, fields)}
    if answered or fields.answer != "answer":
        record["answer"] = _required(row, "answer", fields)
    if (category := plain_value(column_value(row.values, fields.category))) is not None:
        record["category"] = category
    elif fields.category in {*row.values, *column_names(row.values)}:
        record["category"] = None
    elif fields.category != "category":
        remedy = _choose(row, "category")
        raise InputError(f"{row.where}: has no {fields.category}; {remedy}")
    for name, text in (("id", identity), ("category", _category(record))):
        if fault := fault_of_text(text):
            raise InputError(f"{row.where}: {name} {shown(text)} {fault}")
    return record


def _make_records(
    rows: Iterable[Row], fields: Fields, name: str, *, answered: bool
) -> Iterator[Record]:
    seen: set[str] = set()
    for row in rows:
        record = _make_record(row, fields, name, answered)
        if (identity := record["id"]) in seen:
            raise InputError(
                f"{row.where}: id {shorten(identity)} occurs twice; make the ids unique"
            )
        seen.add(identity)
        yield record


def _sample(rows: Iterable[Row], limit: int | None, seed: int) -> tuple[list[Row], int]:
    """Draw `limit` rows at random, by the seed; give them in order, and how many there are.

    One pass that holds so many rows: row n takes the place of a kept one with chance
    limit / n (Vitter 1985, algorithm R).
    """
    rng, kept, count = stream(seed, "prompts", "limit"), list[Row](), 0
    for row in rows:
        count += 1
        if limit is None or len(kept) < limit:
            kept.append(row)
        elif (place := int(rng.integers(count))) < limit:
            kept[place] = row
    return sorted(kept, key=lambda row: row.number), count


class PromptSet(NamedTuple):
    """The prompts of a probe, and how many its source has."""

    prompts: list[Prompt]
    in_source: int


def read_prompts(
    config: Prompts, root: Path, *, seed: int = 0, answered: bool = True
) -> PromptSet:
    """Read the prompts of a probe, or a sample by the seed, in the order of their source.

    Relative paths start from the working folder or the project's, `root`. Without ids in
    the source the id of row 12, counted from 0, is `<name>-0012`. Each must have an answer
    where it is `answered`, for a built-in reward.
    """
    template = load_template(config.template, root)
    name, rows = open_rows(config, root)
    sampled, count = _sample(rows, config.limit, seed)
    records = [*_make_records(sampled, config.fields, name, answered=answered)]
    if not records:
        raise InputError(
            f"{config.source}: has no prompts; give one JSON object per line, or a data "
            "set with rows"
        )
    return PromptSet([_render(record, template, config) for record in records], count)


def load_prompts(config: Prompts, root: Path, **how: Any) -> list[Prompt]:
    """Read the prompts of a probe alone, as `read_prompts` does."""
    return read_prompts(config, root, **how).prompts


def _render(record: Record, template: str, config: Prompts) -> Prompt:
    identity, problem = record["id"], record["problem"]
    if not is_chat(problem):
        text = template.replace("{problem}", str(problem))
        return Prompt(identity, text, _category(record), record)
    if not config.chat or config.template != "none":
        raise InputError(
            f"prompt {shorten(identity)} is a chat: set prompts.chat = true and "
            "prompts.template = none"
        )
    return Prompt(identity, problem[-1]["content"], _category(record), record, problem)


def take_prompts(given: Iterable[Any], config: Prompts, *, answered: bool) -> list[Prompt]:
    """Make prompts from texts, which are problems, or mappings in memory.

    Of the settings their template and chat count. Each must have an `answer` where it is
    `answered`, for a built-in reward. What are prompts already are taken as they are.
    """
    is_list = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    rows = list(given) if is_list else []
    if rows and all(isinstance(row, Prompt) for row in rows):
        return rows
    if not all(isinstance(row, str | Mapping) for row in rows) or not rows:
        raise InputError(
            f"prompts = {shown(given)}: give texts, mappings with problem (or prompt) and "
            "answer, or a data frame of them"
        )
    taken = [
        Row(f"prompts[{at}]", at, {"problem": row} if isinstance(row, str) else dict(row))
        for at, row in enumerate(rows)
    ]
    records = list(_make_records(taken, Fields(), "prompt", answered=answered))
    template = load_template(config.template, Path())
    return [_render(record, template, config) for record in records]


def _as_row(given: Any) -> Mapping[str, Any]:
    """Read a row as everywhere else: a text is a prompt, and may be called `problem`."""
    row = {PROMPT: given} if isinstance(given, str) else dict(given)
    return row if PROMPT in row or PROBLEM not in row else {PROMPT: row[PROBLEM], **row}


def choose_prompts(rows: Any, count: int, seed: int) -> list[Prompt]:
    """Draw `count` rows of a data set at random, by the seed alone, as prompts.

    The reward gets a row as it is: a column of it, such as `problem`, may mean something
    else in a prompt set.
    """
    try:
        indices = stream(seed, "trainer", "prompts").permutation(len(rows))[:count]
        drawn = {index: _as_row(rows[index]) for index in sorted(indices.tolist())}
    except (TypeError, ValueError, KeyError):
        raise InputError(
            f"prompts = {shown(type(rows).__name__)}: give a data set of known length, or "
            "a list of mappings"
        ) from None
    prompts = []
    for index, row in drawn.items():
        problem = plain_value(row.get(PROMPT))
        if not isinstance(problem, str | list) or not problem:
            names = ", ".join(map(str, row)) or "nothing"
            raise InputError(
                f"prompts[{index}]: no text or messages in a column prompt; it has {names}"
            )
        text, chat = (problem, None) if isinstance(problem, str) else ("", problem)
        prompts.append(Prompt(str(index), text, "", row, chat))
    if len({one.chat is None for one in prompts}) != 1:
        raise InputError("prompts: none, or texts beside chats; give prompts of one kind")
    return prompts
