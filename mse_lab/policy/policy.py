"""The policy: a causal language model, its end tokens, and the parameters that count.

The policy is softmax(logits / temperature), nothing else. Of a checkpoint's
`generation_config` only the end tokens are taken: its top-p, top-k, penalties and
temperature would make the sampled law another one than the differentiated law.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from mse_lab.errors import InputError, shown
from mse_lab.policy.adapters import attach_adapter, find_adapter
from mse_lab.policy.chat_template import render_chats
from mse_lab.policy.checkpoint import load_model, load_settings, load_tokenizer
from mse_lab.policy.fingerprint import identify
from mse_lab.policy.hub import Location, locate
from mse_lab.policy.loading import loading, unseen
from mse_lab.probe.patterns import find_matching
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.schema import Probe


@dataclass(frozen=True)
class Policy:
    """A loaded policy.

    Attributes:
        model: The causal language model, in evaluation mode.
        tokenizer: Its tokenizer.
        end_tokens: Ids that end a completion, every one of them.
        temperature: Divides the logits.
        parameters: Name -> parameter, those that the score covers; tied ones once.
        batch: The most completions in one pass of sampling or of the reference.
        identity: `model`, and `adapter` where there is one -> which checkpoint it is: a
            Hub commit, or a hash of the folder.
        found: What is found out about it once, by its type, such as a `ScoringPlan`.
    """

    model: Any
    tokenizer: Any
    end_tokens: tuple[int, ...]
    temperature: float
    parameters: dict[str, nn.Parameter]
    batch: int
    identity: Mapping[str, str] = field(default_factory=dict)
    # Of this very policy: one with other parameters begins anew.
    found: dict[type, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the embedding, if there are several."""
        return next(iter(self.model.get_input_embeddings().parameters())).device

    @property
    def devices(self) -> list[torch.device]:
        """The devices that hold parameters, the one for token ids first."""
        held = (parameter.device for parameter in self.model.parameters())
        return list(dict.fromkeys([self.device, *held]))

    @property
    def size(self) -> int:
        """D, the numbers in the parameters that count."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    def scaled(self, logits: Tensor) -> Tensor:
        """Divide logits (..., V) by the temperature, in float32 or better."""
        exact = logits if logits.dtype == torch.float64 else logits.float()
        # At temperature 1 without another copy of the logits.
        return exact if self.temperature == 1 else exact / self.temperature

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits (..., V) into log pi, in float32 or better."""
        return torch.log_softmax(self.scaled(logits), dim=-1)

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
    model: nn.Module,
    patterns: str | Sequence[str],
    trained: Mapping[str, nn.Parameter] | None = None,
) -> dict[str, nn.Parameter]:
    """Pick the parameters that the score covers.

    Args:
        model: The language model.
        patterns: `all`, or regular expressions that are searched for in the names.
        trained: Those among which they pick, such as an adapter's; None for the model's.

    Returns:
        Name -> parameter in the model's order; a tied parameter stands once.

    Raises:
        InputError: A pattern is broken or matches nothing.
    """
    named = dict(model.named_parameters() if trained is None else trained)
    if isinstance(patterns, str):
        return named
    chosen: set[str] = set()
    for pattern in patterns:
        found = find_matching(pattern, named)
        if not found:
            some = ", ".join(list(named)[:3])
            whose = "" if trained is None else " of the adapter's"
            raise InputError(
                f"parameters: {shown(pattern)} matches none{whose}; names look like {some}"
            )
        chosen |= found
    return {name: parameter for name, parameter in named.items() if name in chosen}


def _end_tokens(model: Any, tokenizer: Any, location: Location) -> tuple[int, ...]:
    ends = model.generation_config.eos_token_id if model.generation_config else None
    listed = [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id]
    found = [end for end in listed if end is not None]
    for end in found:
        # Ids beyond the model's are never drawn, but must be such that can be looked up.
        if type(end) is not int or not 0 <= end < 2**31:
            raise location.refuse(
                f"eos_token_id = {shown(end)} is no token",
                "mend generation_config.json or config.json",
            )
    return tuple(sorted(set(found)))


def load_policy(config: Probe, root: Path) -> Policy:
    """Load the checkpoint of a probe, and its adapter if it has one.

    Args:
        config: The probe.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        The policy, its parameters not requiring gradients.

    Raises:
        InputError: The checkpoint, the adapter, the device or the parameter patterns
            cannot be used.
    """
    device = pick_device(config.model.device)
    location = locate("model.path", config.model.path, config.model.revision, root)
    adapter = find_adapter(config.model, root)
    location, settings = load_settings(location)
    tokenizer = load_tokenizer(location)
    model = load_model(location, settings, config.model, device)
    identity, trained = {"model": identify(location)}, None
    if adapter is not None:
        model, trained, identity["adapter"] = attach_adapter(model, adapter, config.seed)
    policy = Policy(
        model=model,
        tokenizer=tokenizer,
        end_tokens=_end_tokens(model, tokenizer, location),
        temperature=config.sampling.temperature,
        parameters=select_parameters(model, config.parameters, trained),
        batch=config.model.batch or max(config.pool.reference, config.pool.replicate),
        identity=identity,
    )
    _refuse_acausal(policy, location)
    return policy


@torch.no_grad()
def _refuse_acausal(policy: Policy, location: Location) -> None:
    """See that a token does not change the logits before it."""
    last = len(policy.model.get_input_embeddings().weight) - 1
    tokens = torch.tensor([[0, 1, 0], [0, 1, last]], device=policy.device)
    logits = _first_logits(policy, location, tokens)
    change = (logits[0] - logits[1]).abs().amax(-1)
    # Not a single bit should change; what a kernel rounds another way is let pass.
    coarse = policy.model.dtype in (torch.bfloat16, torch.float16)
    if change[:-1].max() > (0.02 if coarse else 0.001) * change[-1]:
        raise location.refuse(
            f"{type(policy.model).__name__} is not causal, a token changes what it "
            "predicts before it",
            "give a decoder",
        )


def _first_logits(policy: Policy, location: Location, tokens: Tensor) -> Tensor:
    """Run a model that others described for the first time, also with its past kept."""
    with loading(location, "config.json"):
        logits = policy.model(tokens, use_cache=False).logits.float()
        past = DynamicCache(config=policy.model.config)
        for part in (tokens[:, :2], tokens[:, 2:]):
            policy.model(part, past_key_values=past, use_cache=True, logits_to_keep=1)
    if logits.isnan().any():
        raise location.refuse(
            "its logits are not numbers", "give a whole checkpoint, or model.dtype=float32"
        )
    return logits


def encode_prompts(
    policy: Policy, prompts: Sequence[Prompt], *, chat: bool, new_tokens: int
) -> list[list[int]]:
    """Tokenize prompts, through the chat template or as raw text.

    Args:
        policy: The policy whose tokenizer is used.
        prompts: The prompts.
        chat: Whether a text is the user's turn of a chat.
        new_tokens: Room to leave for a completion.

    Returns:
        The token ids of each, at least one.

    Raises:
        InputError: There is no chat template, no token, or no room in the context.
    """
    texts = [prompt.text for prompt in prompts]
    if chat:
        if not policy.tokenizer.chat_template:
            raise InputError(
                "prompts.chat = true: the tokenizer has no chat template; use false"
            )
        texts = render_chats(policy.tokenizer, [prompt.id for prompt in prompts], texts)
    # A rendered chat has its special tokens already.
    tokens = [_tokenize(policy, text, add_special_tokens=not chat) for text in texts]
    for prompt, one in zip(prompts, tokens, strict=True):
        _refuse_tokens(policy, prompt, one, new_tokens)
    return tokens


def _tokenize(policy: Policy, text: str, *, add_special_tokens: bool) -> list[int]:
    name = str(policy.tokenizer.name_or_path)
    location = Location("model.path", name, name, None, online=False)
    with loading(location, "tokenizer.json"), unseen():
        return list(policy.tokenizer(text, add_special_tokens=add_special_tokens).input_ids)


def _refuse_tokens(
    policy: Policy, prompt: Prompt, tokens: list[int], new_tokens: int
) -> None:
    """See that the model can read a prompt, and has room for a completion."""
    if not tokens:
        raise InputError(
            f"prompt {prompt.id}: no token is left of its text; check the template"
        )
    rows = len(policy.model.get_input_embeddings().weight)
    if max(tokens) >= rows:
        raise InputError(
            f"prompt {prompt.id}: token {max(tokens)} is beyond the {rows} of the model; "
            "the tokenizer beside it is another model's"
        )
    settings = policy.model.config.get_text_config()
    context = getattr(settings, "max_position_embeddings", None)
    if context is not None and len(tokens) + new_tokens > context:
        raise InputError(
            f"prompt {prompt.id}: {len(tokens)} tokens and {new_tokens} new ones exceed "
            f"the model's context of {context}; shorten it or lower sampling.max_new_tokens"
        )
