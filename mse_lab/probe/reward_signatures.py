"""Reward signatures: a user's function, ours or TRL's, rewards a prompt's completions.

A function with a parameter `completions` has TRL's signature. It is called as in training,
with `prompts`, `completions` and the row's columns as keyword arguments: lists of an
element for each of some completions of one prompt.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mse_lab.errors import InputError
from mse_lab.probe.foreign_code import protect

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
