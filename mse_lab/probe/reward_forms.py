"""Reward forms: a user's function as `(text, row) -> float`, whichever form it has.

A function with a parameter `completions` has TRL's form: it is called for one completion at
a time, with `prompts`, `completions` and the row's columns as lists of one, by name.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mse_lab.errors import InputError

FORMS = "write (text, row) -> float, or as for TRL (completions, **columns) -> list"


def _turn(role: str, text: str, chat: bool) -> Any:
    """Write a text as TRL does: in a chat as a list of one message."""
    return [{"role": role, "content": text}] if chat else text


def as_reward(function: Callable[..., Any], what: str, chat: bool) -> Callable[..., Any]:
    """Give a function that takes a completion's text and its row.

    Args:
        function: Of either form.
        what: Names it in messages.
        chat: Whether TRL would hand it messages.

    Raises:
        InputError: It has neither form.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # None is known of some that are written in C.
        return function
    parameters = signature.parameters
    if "completions" not in parameters:
        try:
            signature.bind("text", {})
        except TypeError:
            raise InputError(f"{what}: takes {signature}; {FORMS}") from None
        return function
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())

    def reward(text: str, row: Mapping[str, Any]) -> Any:
        prompt = _turn("user", str(row.get("problem", "")), chat)
        columns = {**row, "prompts": prompt, "completions": _turn("assistant", text, chat)}
        rewards = list(
            function(**{k: [v] for k, v in columns.items() if takes_any or k in parameters})
        )
        if len(rewards) != 1:
            raise ValueError(f"it gave {len(rewards)} rewards for one completion")
        return rewards[0]

    return reward
