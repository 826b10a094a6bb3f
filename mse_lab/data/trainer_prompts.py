"""Prompts of TRL's trainers: rows of a training set, each under its number."""

from collections.abc import Mapping
from typing import Any

from mse_lab.data.prompts import Prompt
from mse_lab.data.streams import stream
from mse_lab.errors import InputError, shown

PROMPT, PROBLEM = "prompt", "problem"


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
    for index, row in drawn.items():
        if not isinstance(row.get(PROMPT), str | list) or not row[PROMPT]:
            names = ", ".join(map(str, row)) or "nothing"
            raise InputError(
                f"prompts[{index}]: no text or messages in a column prompt; it has {names}"
            )
    prompts = [
        Prompt(str(index), row[PROMPT], "", row)
        if isinstance(row[PROMPT], str)
        else Prompt(str(index), "", "", row, row[PROMPT])
        for index, row in drawn.items()
    ]
    if len({one.chat is None for one in prompts}) != 1:
        raise InputError("prompts: none, or texts beside chats; give prompts of one kind")
    return prompts
