"""Prompts of TRL's trainers as a prompt set, and their rewards as rewards of its rows.

A row keeps all columns of the data set under one key, because the name of one of them, such
as `problem`, may mean something else in a prompt set.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mse_lab.data.reward_functions import LOGS, as_turns, call_together, has_trl_form
from mse_lab.data.streams import stream
from mse_lab.errors import InputError, shown

PROMPT, PROBLEM, COLUMNS_KEY = "prompt", "problem", "columns"

# Names that TRL's rewards get from the trainer: columns of these names are left out.
OF_THE_TRAINER = ("completion", "completion_ids")


def _as_row(given: Any) -> dict[str, Any]:
    """Read a row as everywhere else: a text is a prompt, and may be called `problem`."""
    row = {PROMPT: given} if isinstance(given, str) else dict(given)
    return row if PROMPT in row or PROBLEM not in row else {PROMPT: row[PROBLEM], **row}


def choose_rows(prompts: Any, count: int, seed: int) -> dict[int, Mapping[str, Any]]:
    """Draw `count` rows of a data set at random, by the seed alone: index -> row."""
    try:
        indices = stream(seed, "trainer", "prompts").permutation(len(prompts))[:count]
        rows: dict[int, Mapping[str, Any]] = {
            index: _as_row(prompts[index]) for index in sorted(indices.tolist())
        }
    except (TypeError, ValueError, KeyError):
        raise InputError(
            f"prompts = {shown(type(prompts).__name__)}: give a data set of known length, "
            "or a list of mappings"
        ) from None
    for index, row in rows.items():
        if not isinstance(row.get(PROMPT), str | list) or not row[PROMPT]:
            names = ", ".join(map(str, row)) or "nothing"
            raise InputError(
                f"prompts[{index}]: no text or messages in a column prompt; it has {names}"
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
    """Make the rows of a prompt set from a trainer's, whose prompts are texts or chats.

    The tokenizer renders chats, with TRL's `chat_template_kwargs` as `options`.
    """
    prompt_set = []
    for index, row in rows.items():
        text = row[PROMPT]
        if not isinstance(text, str):
            text = _chat_text(tokenizer, text, f"prompts[{index}]", options)
        prompt_set.append({"id": str(index), PROBLEM: text, COLUMNS_KEY: dict(row)})
    return prompt_set


def as_row_reward(reward: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """Turn a reward into one for rows of `as_prompt_set`, of the same form.

    A reward of TRL's form gets the trainer's `state`, too.
    """

    def of_row(text: str, row: Mapping[str, Any]) -> Any:
        return reward(text, dict(row[COLUMNS_KEY]))

    def of_trl(
        completions: Sequence[str], columns: Sequence[Any], **more: Any
    ) -> list[Any]:
        names = [name for name in columns[0] if name not in OF_THE_TRAINER]
        given = {name: [row[name] for row in columns] for name in names}
        given["prompts"] = given.pop(PROMPT)
        chat = not isinstance(given["prompts"][0], str)
        given["completions"] = as_turns(completions) if chat else list(completions)
        if "completion_ids" in more:
            given["completion_ids"] = more["completion_ids"]
        return call_together(reward, given, trainer_state=state, **LOGS)

    made = of_trl if has_trl_form(reward) else of_row
    made.__module__ = str(getattr(reward, "__module__", None) or type(reward).__module__)
    made.__qualname__ = getattr(reward, "__qualname__", type(reward).__qualname__)
    return made
