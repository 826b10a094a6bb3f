"""The policy: a causal language model, its end tokens, and the parameters that count.

The policy is softmax(logits / temperature), nothing else. Only the end tokens are taken
from a checkpoint's `generation_config`: with its top-p, top-k, penalties or temperature
the sampled distribution would differ from the one whose gradient is taken.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import cache_utils
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from mse_lab.config.schema import Probe
from mse_lab.data.location import Location, locate
from mse_lab.errors import InputError, shown
from mse_lab.policy.adapters import attach_adapter, find_adapter
from mse_lab.policy.checkpoint import load_checkpoint

# Cache layers that keep nothing; transformers 5.17 has none.
EMPTY_LAYERS = tuple(
    getattr(cache_utils, name) for name in ["DummyLayer"] if hasattr(cache_utils, name)
)

# Cache layers that completions can share and that gradients flow back through. Linear
# attention, convolutions and the like overwrite their states at every token, and these
# states can differ from those of a pass over the whole text.
_SHARED = (DynamicLayer, DynamicSlidingWindowLayer, *EMPTY_LAYERS)


@contextmanager
def _without_plans() -> Iterator[None]:
    """Leave out cuDNN's attention, which plans anew for each shape.

    A completion that is drawn has a new shape at every token: on an H100 24 tokens of a
    model of 0.5B took 2.8 times as long with the plans.
    """
    used = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(used)


@dataclass(frozen=True)
class StopStrings:
    """Stop strings: texts that end a completion, as the `stop` of an engine does.

    A completion ends with the first token at which its decoded text contains one of them.
    That token belongs to it: the end is a function of the tokens so far, so log pi and the
    score are sums over all tokens up to it. The text for the reward stops before the
    string.
    """

    texts: tuple[str, ...]  # None of them empty.
    tokenizer: Any  # The policy's.
    special: frozenset[int]  # Tokens that decoding leaves out.
    # Tokens at a completion's end that can hold a string: each holds a byte of it or more,
    # and the first ones may lose a space, or be parts of a character.
    reach: int

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Any) -> "StopStrings | None":
        """Prepare stop strings, None if there are none; refuse one with a special token."""
        if not texts:
            return None
        for text in texts:
            if any(token in text for token in tokenizer.all_special_tokens):
                raise InputError(
                    f"sampling.stop = {shown(text)}: a special token, which is not part of "
                    "a completion's text; leave it out: end tokens end a completion anyway"
                )
        reach = max(len(text.encode()) for text in texts) + 4
        return cls(tuple(texts), tokenizer, frozenset(tokenizer.all_special_ids), reach)

    def end(self, tokens: Sequence[int]) -> bool:
        """Whether the last of these tokens completes a stop string."""
        plain = (token for token in reversed(tokens) if token not in self.special)
        last = [*islice(plain, self.reach)][::-1]
        tail = str(self.tokenizer.decode(last, skip_special_tokens=True))
        return any(text in tail for text in self.texts)

    def cut(self, text: str) -> str:
        """Cut a completion's text before the first stop string in it."""
        places = (text.find(stop) for stop in self.texts)
        return text[: min((place for place in places if place >= 0), default=len(text))]


@dataclass(frozen=True, eq=False)
class Policy:
    """A loaded policy: the model in evaluation mode, and the settings that define it."""

    model: Any  # A causal language model of transformers.
    tokenizer: Any  # Its tokenizer.
    end_tokens: tuple[int, ...]  # Token ids, each of which ends a completion.
    temperature: float  # Divides the logits.
    # The parameters that the score covers, by name; tied ones once.
    parameters: dict[str, nn.Parameter]
    location: Location  # Names it in messages.
    # `model`, and `adapter` if there is one -> the Hub commit or a hash of the folder.
    identity: Mapping[str, str] = field(default_factory=dict)
    stops: StopStrings | None = None  # Texts, each of which ends a completion.

    @property
    def device(self) -> torch.device:
        """The device for token ids: that of the embedding."""
        return next(iter(self.model.get_input_embeddings().parameters())).device

    @property
    def devices(self) -> list[torch.device]:
        """The devices that hold parameters, the device for token ids first."""
        devices = (parameter.device for parameter in self.model.parameters())
        return list(dict.fromkeys([self.device, *devices]))

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens that the model can read."""
        return len(self.model.get_input_embeddings().weight)

    @property
    def size(self) -> int:
        """D, the number of entries in the parameters that count."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    def empty_cache(self) -> Any:
        """Make a cache of keys and values; None if the model cannot use one."""
        takes = inspect.signature(type(self.model).forward).parameters
        cache = DynamicCache(config=self.model.config)
        shared = all(type(layer) in _SHARED for layer in cache.layers)
        return cache if shared and "past_key_values" in takes else None

    def logits(self, tokens_NT: Tensor, cache: Any = None, *, kept: int) -> Tensor:
        """Compute the last `kept` logits of tokens that follow a cache, (N, kept, V)."""
        past = {"use_cache": False}
        if cache is not None:
            past = {"use_cache": True, "past_key_values": cache}
        with _without_plans():
            return self.model(tokens_NT, logits_to_keep=kept, **past).logits

    def scaled(self, logits: Tensor) -> Tensor:
        """Divide logits (..., V) by the temperature, in float32 or float64.

        V may be a slice of the vocabulary (`scores/output_head.py`).
        """
        exact = logits if logits.dtype == torch.float64 else logits.float()
        # At temperature 1 without another copy of the logits.
        return exact if self.temperature == 1 else exact / self.temperature

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Convert logits (..., V) to log pi, in float32 or float64."""
        return torch.log_softmax(self.scaled(logits), dim=-1)

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether the last of a completion's tokens ends it."""
        return tokens[-1] in self.end_tokens or (
            self.stops is not None and self.stops.end(tokens)
        )

    def decode(self, tokens: Sequence[int], *, turns: bool = False) -> str:
        """Decode a completion up to its first end token, without special tokens.

        A stop string and what its last token holds behind it are left out. With `turns` an
        end token ends a turn only, and everything is decoded.
        """
        ends = (index for index, token in enumerate(tokens) if token in self.end_tokens)
        kept = tokens if turns else tokens[: next(ends, None)]
        text = str(self.tokenizer.decode(kept, skip_special_tokens=True))
        return text if self.stops is None else self.stops.cut(text)

    @property
    def end_texts(self) -> dict[int, str]:
        """The text of every end token."""
        convert = self.tokenizer.convert_ids_to_tokens
        return {token: str(convert(token)) for token in self.end_tokens}

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Let autograd accumulate the gradients of `parameters` inside the block."""
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        try:
            yield
        finally:
            for parameter in self.parameters.values():
                parameter.requires_grad_(False)
                parameter.grad = None


def pick_device(name: str) -> torch.device:
    """Resolve the probe's device."""
    gpus = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda" if gpus else "cpu")
    device = torch.device(name)
    if (device.index or 0) >= {"cpu": 1, "cuda": gpus}[device.type]:
        raise InputError(f"model.device = {name}: not on this machine; use auto or cpu")
    return device


def select_parameters(
    model: nn.Module,
    patterns: str | Sequence[str],
    trained: Mapping[str, nn.Parameter] | None = None,
) -> dict[str, nn.Parameter]:
    """Select the parameters that the score covers, in the model's order, tied ones once.

    They are `all`, or those in whose names a pattern is found. If `trained` parameters are
    given, such as an adapter's, the choice is among these.
    """
    named = dict(model.named_parameters() if trained is None else trained)
    if isinstance(patterns, str):
        return named
    for pattern in patterns:
        if not any(re.search(pattern, name) for name in named):
            of = "the model" if trained is None else "the adapter"
            raise InputError(
                f"parameters: {shown(pattern)} matches no parameter of {of}; names look "
                f"like {', '.join(list(named)[:3])}"
            )
    return {
        name: parameter
        for name, parameter in named.items()
        if any(re.search(pattern, name) for pattern in patterns)
    }


def find_end_tokens(model: Any, tokenizer: Any, location: Location) -> tuple[int, ...]:
    """List the end tokens of generation_config and tokenizer."""
    ends = model.generation_config.eos_token_id if model.generation_config else None
    listed = [*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id]
    end_tokens = [end for end in listed if end is not None]
    for end in end_tokens:
        if type(end) is not int or not 0 <= end < 2**31:
            raise location.refuse(
                f"eos_token_id = {shown(end)} is not a token id",
                "correct generation_config.json or config.json",
            )
    return tuple(sorted(set(end_tokens)))


def load_policy(config: Probe, root: Path) -> Policy:
    """Load the checkpoint of a probe, and its adapter; no parameter requires gradients."""
    device = pick_device(config.model.device)
    location = locate("model.path", config.model.path, config.model.revision, root)
    adapter = find_adapter(config.model, root)
    model, tokenizer, checkpoint = load_checkpoint(location, config.model, device)
    identity, trained = {"model": checkpoint}, None
    if adapter is not None:
        model, trained, identity["adapter"] = attach_adapter(model, adapter, config.seed)
    return make_policy(config, model, tokenizer, location, identity, trained)


def make_policy(
    config: Probe,
    model: Any,
    tokenizer: Any,
    location: Location,
    identity: Mapping[str, str],
    trained: Mapping[str, nn.Parameter] | None,
) -> Policy:
    """Make a policy from a model in evaluation mode; `location` names it in messages.

    The parameters that count are chosen from the `trained` ones; None for all.
    """
    return Policy(
        model=model,
        tokenizer=tokenizer,
        end_tokens=find_end_tokens(model, tokenizer, location),
        temperature=config.sampling.temperature,
        parameters=select_parameters(model, config.parameters, trained),
        identity=identity,
        stops=StopStrings.of(config.sampling.stop, tokenizer),
        location=location,
    )
