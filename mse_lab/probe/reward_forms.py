"""Reward forms: a user's function in our form or TRL's becomes `(text, row) -> float`.

A function with a parameter `completions` has TRL's form. It is called for one completion at
a time, with `prompts`, `completions` and the row's columns as keyword arguments: lists of
length 1.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mse_lab.errors import InputError

FORMS = "write (text, row) -> float, or as for TRL (completions, **columns) -> list"


def _turn(role: str, text: str, chat: bool) -> Any:
    """Return a text as TRL passes it: in a chat as a list of one message."""
    return [{"role": role, "content": text}] if chat else text


def as_reward(function: Callable[..., Any], what: str, chat: bool) -> Callable[..., Any]:
    """Convert a function of either form to one that takes a completion's text and its row.

    Args:
        function: The user's function.
        what: Its name in messages.
        chat: Whether a function of TRL's form gets messages instead of texts.

    Raises:
        InputError: It has neither form.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Some functions written in C have no signature.
        return function
    parameters = signature.parameters
    if "completions" not in parameters:
        try:
            signature.bind("text", {})
        except TypeError:
            raise InputError(f"{what}: takes {signature}; {FORMS}") from None
        return function
    takes_any = any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )

    def reward(text: str, row: Mapping[str, Any]) -> Any:
        prompt = _turn("user", str(row.get("problem", "")), chat)
        columns = {**row, "prompts": prompt, "completions": _turn("assistant", text, chat)}
        arguments = {
            name: [value]
            for name, value in columns.items()
            if takes_any or name in parameters
        }
        rewards = list(function(**arguments))
        if len(rewards) != 1:
            raise ValueError(f"it gave {len(rewards)} rewards for one completion")
        return rewards[0]

    return reward
