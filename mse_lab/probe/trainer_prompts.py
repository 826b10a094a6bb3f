"""Prompts and rewards as TRL's trainers have them, measured as a prompt set of ours.

A row keeps all columns of the data set under one key, for one of them may have a name that
a prompt set gives to something else, such as `problem`.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mse_lab.errors import InputError, shown
from mse_lab.probe.reward_forms import call_once
from mse_lab.probe.streams import stream

PROMPT, COLUMNS = "prompt", "columns"

# What TRL hands to a reward beside the columns, and no column can be.
OF_THE_TRAINER = ("completion", "completion_ids")


def choose_rows(prompts: Any, count: int, seed: int) -> dict[int, Mapping[str, Any]]:
    """Draw so many rows of a data set at random, by the seed alone: place -> row."""
    try:
        places = stream(seed, "trainer", "prompts").permutation(len(prompts))[:count]
        rows: dict[int, Mapping[str, Any]] = {
            int(place): dict(prompts[int(place)]) for place in sorted(places)
        }
    except (TypeError, ValueError, KeyError):
        raise InputError(
            f"prompts = {shown(type(prompts).__name__)}: give a data set of known length, "
            "or a list of mappings"
        ) from None
    for place, row in rows.items():
        if not isinstance(row.get(PROMPT), str | list) or not row[PROMPT]:
            names = ", ".join(map(str, row)) or "nothing"
            raise InputError(
                f"prompts[{place}]: no text or messages in a column prompt; it has {names}"
            )
    return rows


def _chat_text(tokenizer: Any, messages: Any, where: str, options: Any) -> str:
    """Render a chat as a text that has the tokens that the trainer reads."""
    given = {"add_generation_prompt": True, **(options or {})}
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, **given)
    except Exception as error:  # A template is a program: it can fail in any way.
        raise InputError(f"{where}: the chat template fails: {error}") from None
    ids = tokenizer(text, add_special_tokens=False).input_ids
    for plain in (text, text.removeprefix(tokenizer.bos_token or "")):
        if tokenizer(plain).input_ids == ids:
            return str(plain)
    raise InputError(
        f"{where}: its tokenizer adds tokens to a rendered chat; give the prompts as texts"
    )


def as_prompt_set(
    rows: Mapping[int, Mapping[str, Any]], tokenizer: Any, options: Any = None
) -> list[dict[str, Any]]:
    """Make rows of a prompt set of a trainer's, of texts or chats.

    Chats are rendered by the tokenizer, with TRL's `chat_template_kwargs` as `options`.
    """
    found = []
    for place, row in rows.items():
        text = row[PROMPT]
        if not isinstance(text, str):
            text = _chat_text(tokenizer, text, f"prompts[{place}]", options)
        found.append({"id": str(place), "problem": text, COLUMNS: dict(row)})
    return found


def _ignore(*_: Any) -> None:
    """Stand for the trainer's own logs of a reward: they are of the training alone."""


def as_row_reward(reward: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """Make `(text, row) -> float` of a reward, for rows of `as_prompt_set`.

    One of TRL's form gets the trainer's `state`, too.
    """
    more = {"trainer_state": state, "log_extra": _ignore, "log_metric": _ignore}
    is_of_trainer = "completions" in inspect.signature(reward).parameters

    def one(text: str, row: Mapping[str, Any]) -> Any:
        columns = dict(row[COLUMNS])
        if not is_of_trainer:
            return reward(text, columns)
        for name in OF_THE_TRAINER:
            columns.pop(name, None)
        columns["prompts"] = columns.pop(PROMPT)
        turn = [{"role": "assistant", "content": text}]
        columns["completions"] = text if isinstance(columns["prompts"], str) else turn
        return call_once(reward, columns, **more)

    one.__module__ = str(getattr(reward, "__module__", None) or type(reward).__module__)
    one.__qualname__ = getattr(reward, "__qualname__", type(reward).__qualname__)
    return one
