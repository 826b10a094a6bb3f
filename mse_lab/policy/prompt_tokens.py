"""Decode prompts of which a log has only the token ids."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError
from mse_lab.policy.checkpoint import load_tokenizer
from mse_lab.policy.location import locate


@lru_cache(maxsize=1)
def _tokenizer(model: str) -> Any:
    return load_tokenizer(locate("--model", model, None, Path.cwd()))


def text_of_tokens(model: str, tokens: Sequence[int]) -> str:
    """Decode a prompt, special tokens included, into a text that has the same tokens."""
    tokenizer = _tokenizer(model)
    text = str(tokenizer.decode(tokens, skip_special_tokens=False))
    if list(tokenizer(text).input_ids) != list(tokens):
        raise InputError(
            f"--model {model}: its tokenizer makes other tokens of the text of a prompt; "
            "name the model that was trained, or write the prompts yourself"
        )
    return text
