"""The identity of a checkpoint: the Hub's commit, or a hash of the folder.

A resumed run must not continue with other weights. A folder's hash covers the names, sizes
and content of the files that decide what the policy computes, not their dates. In a large
folder only pieces of every file are hashed: training changes weights nearly everywhere.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mse_lab.policy.location import Location, find_model, look_up
from mse_lab.probe.schema import Model

DECISIVE = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja", ".tiktoken")
TRAINER = ("trainer_state.json", "training_args.bin", "optimizer.bin", "scheduler.bin")

# A folder of at most WHOLE_BYTES is hashed whole, within a second. In a larger one PIECES
# evenly spaced pieces of PIECE_BYTES of each file are hashed.
WHOLE_BYTES = 2**28
PIECES, PIECE_BYTES = 2**12, 2**12

# At least this many numbers of a parameter in memory are hashed, evenly spaced.
NUMBERS = 2**12

# Beginnings of settings that do not change the policy, or may differ by tokens added.
_NO_POLICY = (
    *("_", "name_or_path", "architectures", "dtype", "torch_dtype", "transformers"),
    *("use_cache", "vocab_size", "bos_token", "eos_token", "pad_token", "quantization"),
)


def fingerprint(folder: Path, only: str | None = None) -> str:
    """Hash a folder, or a file of it; `sampled-sha256:` if that is large."""
    files = (
        [folder / only]
        if only
        else sorted(
            path
            for path in folder.iterdir()
            if path.suffix in DECISIVE and path.name not in TRAINER and path.is_file()
        )
    )
    sizes = {path: path.stat().st_size for path in files}
    whole = sum(sizes.values()) <= WHOLE_BYTES
    digest = hashlib.sha256()
    for path, size in sizes.items():
        digest.update(json.dumps([path.name, size]).encode())
        step = PIECE_BYTES if whole else max(PIECE_BYTES, size // PIECES)
        with path.open("rb") as file:
            for start in range(0, size, step):
                file.seek(start)
                digest.update(file.read(PIECE_BYTES))
    return f"{'' if whole else 'sampled-'}sha256:{digest.hexdigest()}"


def identify(location: Location, file: str = "config.json") -> str:
    """Identify a checkpoint by its commit (empty if not cached) or its folder's hash."""
    if location.local is not None:
        try:
            return fingerprint(location.local, location.gguf)
        except OSError as error:
            name = Path(error.filename or "a file").name
            raise location.refuse(
                f"{name}: {error.strerror}", "give files that may be read"
            ) from None
    cached = location.file(location.gguf or file)
    # The cache keeps a commit's files in `snapshots/<commit>`.
    return cached.parent.name if cached is not None else ""


def identify_model(config: Model, root: Path) -> dict[str, str]:
    """Identify the `model` and a saved `adapter`, without asking the Hub."""
    identities = {"model": identify(find_model(config, root))}
    if isinstance(config.adapter, str):
        adapter = look_up("model.adapter", config.adapter, config.adapter_revision, root)
        identities["adapter"] = identify(adapter, "adapter_config.json")
    return identities


def fingerprint_in_memory(model: nn.Module) -> str:
    """Hash the name, shape and `NUMBERS` or more numbers of every parameter of a model."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(json.dumps([name, str(parameter.dtype), *parameter.shape]).encode())
        flat = parameter.detach().flatten()
        some = flat[:: max(1, len(flat) // NUMBERS)].cpu().contiguous()
        digest.update(some.view(torch.uint8).numpy().tobytes())
    return f"memory-sha256:{digest.hexdigest()}"


def settings_of(config: Any) -> dict[str, Any]:
    """Take from a model's configuration what decides its policy, besides weights."""
    values = config.to_dict()
    return {key: values[key] for key in values if not key.startswith(_NO_POLICY)}


def fingerprint_of_settings(
    model: Any, tokenizer: Any, end_tokens: Sequence[int]
) -> dict[str, str]:
    """Hash what else decides a policy in memory: its settings, its tokens and texts."""
    tokens = [sorted(tokenizer.get_vocab().items()), tokenizer.chat_template, end_tokens]
    parts = {"model's config": settings_of(model.config), "tokenizer": tokens}
    return {
        part: f"sha256:{hashlib.sha256(repr(value).encode()).hexdigest()}"
        for part, value in parts.items()
    }
