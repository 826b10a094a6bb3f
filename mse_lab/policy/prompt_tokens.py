"""The tokens of prompts: rendered as chats, and encoded.

Chat templates are rendered in the sandbox of transformers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mse_lab.data.location import loading
from mse_lab.data.prompts import Prompt
from mse_lab.errors import InputError, in_short, shown
from mse_lab.policy.policy import Policy

Options = Mapping[str, Any] | None


def render_chats(
    tokenizer: Any, prompts: Sequence[Prompt], options: Options = None
) -> list[str]:
    """Render each prompt, a chat or the user's turn of one, by a template's `options`."""
    if not tokenizer.chat_template:
        raise InputError(
            "prompts.chat = true: the tokenizer has no chat template; use false"
        )
    return [_render(tokenizer, prompt, options or {}) for prompt in prompts]


def _render(tokenizer: Any, prompt: Prompt, options: Mapping[str, Any]) -> str:
    given = {"add_generation_prompt": True, **options, "tokenize": False}
    try:
        return str(tokenizer.apply_chat_template(prompt.turns, **given))
    except Exception as error:  # A template is a program: it can fail in any way.
        key, remedy = "chat = true", "use false, or another template"
        if options:
            key, remedy = f"chat_template_kwargs = {shown(options)}", "mend it"
        raise InputError(
            f"prompts.{key}: the chat template fails on prompt {prompt.id}: "
            f"{in_short(error)}; {remedy}"
        ) from None


def encode_prompts(
    policy: Policy,
    prompts: Sequence[Prompt],
    *,
    chat: bool,
    new_tokens: int,
    options: Options = None,
) -> list[list[int]]:
    """Tokenize prompts; with `chat`, each as a chat or the user's turn of one.

    The chat template is given `options`, too. The `new_tokens` of a completion must fit in
    the context as well.
    """
    plain = [prompt.text for prompt in prompts]
    texts = render_chats(policy.tokenizer, prompts, options) if chat else plain
    with loading(policy.location, "the tokenizer"):
        # A rendered chat has its special tokens already.
        encoded = [
            list(policy.tokenizer(text, add_special_tokens=not chat).input_ids)
            for text in texts
        ]
    for prompt, tokens in zip(prompts, encoded, strict=True):
        if fault := _fault_of_prompt(policy, tokens, new_tokens):
            raise InputError(f"prompt {prompt.id}: {fault}")
    return encoded


def _fault_of_prompt(policy: Policy, tokens: list[int], new_tokens: int) -> str:
    """Say why the model cannot continue a prompt; empty if it can."""
    if not tokens:
        return "its text has no tokens; check the template"
    if max(tokens) >= policy.vocabulary:
        return (
            f"token {max(tokens)} is outside the model's vocabulary of "
            f"{policy.vocabulary}; use the tokenizer of this model"
        )
    settings = policy.model.config.get_text_config()
    context = getattr(settings, "max_position_embeddings", None)
    if context is None or len(tokens) + new_tokens <= context:
        return ""
    return (
        f"{len(tokens)} tokens and {new_tokens} new tokens exceed the model's context of "
        f"{context}; shorten the prompt or lower sampling.max_new_tokens"
    )
