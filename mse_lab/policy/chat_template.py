"""Render prompts by a tokenizer's chat template, in the sandbox of transformers."""

from collections.abc import Sequence
from typing import Any

from mse_lab.errors import InputError, in_short
from mse_lab.probe.prompts import Prompt


def render_chats(tokenizer: Any, prompts: Sequence[Prompt]) -> list[str]:
    """Render each prompt, a chat or the user's turn of one."""
    if not tokenizer.chat_template:
        raise InputError(
            "prompts.chat = true: the tokenizer has no chat template; use false"
        )
    return [_render(tokenizer, prompt) for prompt in prompts]


def _render(tokenizer: Any, prompt: Prompt) -> str:
    options = {"tokenize": False, "add_generation_prompt": True}
    try:
        return str(tokenizer.apply_chat_template(prompt.turns, **options))
    except Exception as error:  # A template is a program: it can fail in any way.
        raise InputError(
            f"prompts.chat = true: the chat template fails on prompt {prompt.id}: "
            f"{in_short(error)}; use false, or another template"
        ) from None
