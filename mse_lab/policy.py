"""The policy: a causal language model, its end tokens, and the parameters that count.

The policy is softmax(logits / temperature), nothing else. Of a checkpoint's
`generation_config` only the end tokens are taken: its top-p, top-k, penalties and
temperature would make the sampled law another one than the differentiated law.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from mse_lab.config import InputError, Model, Probe, local_path
from mse_lab.prompts import Prompt


@dataclass(frozen=True)
class Policy:
    """A loaded policy.

    Attributes:
        model: The causal language model, in evaluation mode.
        tokenizer: Its tokenizer.
        end_tokens: Ids that end a completion, every one of them.
        temperature: Divides the logits.
        parameters: Name -> parameter, those that the score covers; tied ones once.
        batch: Completions in one forward pass of sampling and of the reference.
    """

    model: Any
    tokenizer: Any
    end_tokens: tuple[int, ...]
    temperature: float
    parameters: dict[str, nn.Parameter]
    batch: int

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return next(iter(self.model.parameters())).device

    @property
    def size(self) -> int:
        """D, the numbers in the parameters that count."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits (..., V) into log pi, in float32 or better."""
        exact = logits if logits.dtype == torch.float64 else logits.float()
        return torch.log_softmax(exact / self.temperature, dim=-1)

    def decode(self, tokens: Sequence[int]) -> str:
        """Give the text of a completion: up to its first end token, specials skipped."""
        ended = [
            position for position, token in enumerate(tokens) if token in self.end_tokens
        ]
        kept = tokens[: ended[0]] if ended else tokens
        return str(self.tokenizer.decode(kept, skip_special_tokens=True))

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Let autograd accumulate into the parameters that count, inside the block."""
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        try:
            yield
        finally:
            for parameter in self.parameters.values():
                parameter.requires_grad_(False)
                parameter.grad = None


def pick_device(name: str) -> torch.device:
    """Resolve the probe's device.

    Raises:
        InputError: The device is not there.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    count = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }[device.type]
    if (device.index or 0) >= count:
        raise InputError(f"model.device = {name}: not on this machine; use auto or cpu")
    return device


def select_parameters(
    model: nn.Module, patterns: str | Sequence[str]
) -> dict[str, nn.Parameter]:
    """Pick the parameters that the score covers.

    Args:
        model: The language model.
        patterns: `all`, or regular expressions that are searched for in the names.

    Returns:
        Name -> parameter in the model's order; a tied parameter stands once.

    Raises:
        InputError: A pattern is broken or matches nothing.
    """
    named = dict(model.named_parameters())
    if isinstance(patterns, str):
        return named
    chosen: set[str] = set()
    for pattern in patterns:
        try:
            found = {name for name in named if re.search(pattern, name)}
        except re.error as error:
            raise InputError(
                f"parameters: {pattern!r} is no regular expression: {error}"
            ) from None
        if not found:
            some = ", ".join(list(named)[:3])
            raise InputError(
                f"parameters: {pattern!r} matches none; names look like {some}"
            )
        chosen |= found
    return {name: parameter for name, parameter in named.items() if name in chosen}


def _end_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    ends = model.generation_config.eos_token_id if model.generation_config else None
    listed = ends if isinstance(ends, list) else [ends]
    return tuple(
        sorted({end for end in (*listed, tokenizer.eos_token_id) if end is not None})
    )


def _where(config: Model, root: Path) -> str:
    """Resolve the checkpoint: an existing folder, or a Hub name `owner/model`."""
    path = local_path(config.path, root)
    if path is not None and not (path / "config.json").is_file():
        raise InputError(
            f"model.path = {config.path}: no config.json in it; give a checkpoint"
        )
    if path is not None:
        return str(path)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", config.path):
        return config.path
    raise InputError(
        f"model.path = {config.path}: no such folder; give a checkpoint or Hub name"
    )


def load_policy(config: Probe, root: Path) -> Policy:
    """Load the checkpoint of a probe through `from_pretrained`.

    Args:
        config: The probe.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        The policy, its parameters not requiring gradients.

    Raises:
        InputError: The checkpoint, the device or the parameter patterns cannot be used.
    """
    # One bar on the screen is enough, ours, and one line if the Hub is out of reach.
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    device = pick_device(config.model.device)
    where, revision = _where(config.model, root), config.model.revision
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, revision=revision)
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            where, revision=revision, dtype=getattr(torch, config.model.dtype)
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        remedy = "" if Path(where).is_dir() else f"; fetch it with: hf download {where}"
        raise InputError(
            f"model.path = {config.model.path}: cannot be loaded: {reason}{remedy}"
        ) from None
    model.to(device).eval().requires_grad_(False)
    return Policy(
        model=model,
        tokenizer=tokenizer,
        end_tokens=_end_tokens(model, tokenizer),
        temperature=config.sampling.temperature,
        parameters=select_parameters(model, config.parameters),
        batch=config.model.batch,
    )


def encode_prompt(
    policy: Policy, prompt: Prompt, *, chat: bool, new_tokens: int
) -> list[int]:
    """Tokenize a prompt, through the chat template or as raw text.

    Args:
        policy: The policy whose tokenizer is used.
        prompt: The prompt.
        chat: Whether the text is the user's turn of a chat.
        new_tokens: Room to leave for a completion.

    Returns:
        The token ids, at least one.

    Raises:
        InputError: There is no chat template, no token, or no room in the context.
    """
    if chat:
        if not policy.tokenizer.chat_template:
            raise InputError(
                "prompts.chat = true: the tokenizer has no chat template; use false"
            )
        turn = [{"role": "user", "content": prompt.text}]
        text = policy.tokenizer.apply_chat_template(
            turn, tokenize=False, add_generation_prompt=True
        )
    else:
        text = prompt.text
    tokens = list(policy.tokenizer(text, add_special_tokens=not chat).input_ids)
    if not tokens:
        raise InputError(
            f"prompt {prompt.id}: no token is left of its text; check the template"
        )
    context = getattr(policy.model.config, "max_position_embeddings", None)
    if context is not None and len(tokens) + new_tokens > context:
        raise InputError(
            f"prompt {prompt.id}: {len(tokens)} tokens and {new_tokens} new ones exceed "
            f"the model's context of {context}; shorten it or lower sampling.max_new_tokens"
        )
    return tokens
