"""Rewards by a user's function, ours or TRL's; prompts of TRL's trainers as a prompt set.

A function with a parameter `completions` has TRL's signature. It is called as in training,
with `prompts`, `completions` and the row's columns as keyword arguments: lists of an
element for each of some completions of one prompt.

A row keeps all columns of the data set under one key, because the name of one of them, such
as `problem`, may mean something else in a prompt set.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mse_lab.errors import InputError, shown
from mse_lab.probe.foreign_code import protect
from mse_lab.probe.streams import stream

SIGNATURES = "write (text, row) -> float, or as for TRL (completions, **columns) -> list"

# Completions of a call of TRL's signature, at most: about those of a step of training.
LARGEST_CALL = 64

# Rewards texts of a prompt, whose row is the second argument.
RewardsOf = Callable[[Sequence[str], Mapping[str, Any]], list[Any]]


def has_trl_signature(function: Callable[..., Any]) -> bool:
    """Whether a function takes `completions`; some functions of C have no signature."""
    try:
        return "completions" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def call_together(
    function: Callable[..., Any], columns: Mapping[str, Sequence[Any]], **more: Any
) -> list[Any]:
    """Call a function of TRL's signature.

    It gets those of its parameters that there are: `columns`, and `more`.
    """
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    given = {**columns, **more}
    taken = {name: given[name] for name in given if takes_any or name in parameters}
    rewards, count = list(function(**taken)), len(columns["completions"])
    if len(rewards) != count:
        raise ValueError(f"it gave {len(rewards)} rewards for {count} completions")
    return rewards


def as_turns(texts: Sequence[str]) -> list[list[dict[str, str]]]:
    """Make an answer of a chat of each text."""
    return [[{"role": "assistant", "content": text}] for text in texts]


def _of_trl(function: Callable[..., Any], chat: bool) -> RewardsOf:
    def call(texts: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
        rows, problem = [protect(row) for _ in texts], row.get("problem", "")
        columns = {name: [each[name] for each in rows] for name in row}
        columns |= {"prompts": [str(problem)] * len(texts), "completions": list(texts)}
        if chat:
            user = [{"role": "user", "content": str(problem)}]
            turns = problem if isinstance(problem, list) else user
            columns["prompts"] = [protect(turns) for _ in texts]
            columns["completions"] = as_turns(texts)
        return call_together(function, columns)

    def rewards_of(texts: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
        starts = range(0, len(texts), LARGEST_CALL)
        calls = [call(texts[start : start + LARGEST_CALL], row) for start in starts]
        return [reward for rewards in calls for reward in rewards]

    return rewards_of


def as_rewards_of(function: Callable[..., Any], what: str, chat: bool) -> RewardsOf:
    """Convert a function of either signature to one of completions' texts and their row.

    In a `chat` a function of TRL's signature gets messages instead of texts. One of ours is
    called once for equal texts.
    """
    if has_trl_signature(function):
        return _of_trl(function, chat)
    try:
        inspect.signature(function).bind("text", {})
    except TypeError:
        signature = inspect.signature(function)
        raise InputError(f"{what}: takes {signature}; {SIGNATURES}") from None
    except ValueError:  # Some functions written in C have no signature.
        pass

    def rewards_of(texts: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
        rewards = {text: function(text, protect(row)) for text in dict.fromkeys(texts)}
        return [rewards[text] for text in texts]

    return rewards_of


PROMPT, PROBLEM, COLUMNS = "prompt", "problem", "columns"

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
        prompt_set.append({"id": str(index), PROBLEM: text, COLUMNS: dict(row)})
    return prompt_set


def _ignore(*_: Any) -> None:
    """Take what a reward logs through the trainer: it belongs to the training alone."""


def as_row_reward(reward: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """Turn a reward into one for rows of `as_prompt_set`, of the same signature.

    A reward of TRL's signature gets the trainer's `state`, too.
    """
    more = {"trainer_state": state, "log_extra": _ignore, "log_metric": _ignore}

    def of_row(text: str, row: Mapping[str, Any]) -> Any:
        return reward(text, dict(row[COLUMNS]))

    def of_trl(completions: Sequence[str], columns: Sequence[Any], **_: Any) -> list[Any]:
        names = [name for name in columns[0] if name not in OF_THE_TRAINER]
        given = {name: [row[name] for row in columns] for name in names}
        given["prompts"] = given.pop(PROMPT)
        chat = not isinstance(given["prompts"][0], str)
        given["completions"] = as_turns(completions) if chat else list(completions)
        return call_together(reward, given, **more)

    made = of_trl if has_trl_signature(reward) else of_row
    made.__module__ = str(getattr(reward, "__module__", None) or type(reward).__module__)
    made.__qualname__ = getattr(reward, "__qualname__", type(reward).__qualname__)
    return made
