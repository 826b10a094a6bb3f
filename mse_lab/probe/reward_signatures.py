"""Reward signatures: a user's function, ours or TRL's, becomes `(text, row) -> float`.

A function with a parameter `completions` has TRL's signature. It is called for one
completion at a time, with `prompts`, `completions` and the row's columns as keyword
arguments: lists of length 1.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mse_lab.errors import InputError

SIGNATURES = "write (text, row) -> float, or as for TRL (completions, **columns) -> list"


def call_once(function: Callable[..., Any], columns: Mapping[str, Any], **more: Any) -> Any:
    """Call a function of TRL's signature for one completion.

    It gets those of its parameters that there are: `columns` as lists of length 1, `more`
    as they are.
    """
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    given = {**{name: [value] for name, value in columns.items()}, **more}
    taken = {name: given[name] for name in given if takes_any or name in parameters}
    rewards = list(function(**taken))
    if len(rewards) != 1:
        raise ValueError(f"it gave {len(rewards)} rewards for one completion")
    return rewards[0]


def as_reward(function: Callable[..., Any], what: str, chat: bool) -> Callable[..., Any]:
    """Convert a function of either signature to one of a completion's text and its row.

    In a `chat` a function of TRL's signature gets messages instead of texts.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Some functions written in C have no signature.
        return function
    if "completions" not in signature.parameters:
        try:
            signature.bind("text", {})
        except TypeError:
            raise InputError(f"{what}: takes {signature}; {SIGNATURES}") from None
        return function

    def reward(text: str, row: Mapping[str, Any]) -> Any:
        prompt = str(row.get("problem", ""))
        columns = {**row, "prompts": prompt, "completions": text}
        if chat:
            columns["prompts"] = [{"role": "user", "content": prompt}]
            columns["completions"] = [{"role": "assistant", "content": text}]
        return call_once(function, columns)

    return reward
