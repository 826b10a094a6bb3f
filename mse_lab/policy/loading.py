"""The door through which the files of others come in: whatever fails is one line.

What transformers, tokenizers, PEFT and torch raise on a damaged checkpoint can be any kind
of error. `loading` turns it into a line that names the folder, the file and the library's
last words. Sizes are looked at while the modules are built, before they take memory.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import GenerationConfig

from mse_lab.errors import InputError, in_short, shorten
from mse_lab.policy.hub import Location, incomplete

# Files that can be looked at one by one, to say which of them is damaged.
SUSPECTS = (
    "*config.json",
    "*token*.json",
    "vocab.json",
    "*.index.json",
    "*.safetensors",
    "pytorch_model*.bin",
    "adapter_model.bin",
)

# No model has as many layers; lists this long are built before any weight is looked at.
MOST_LAYERS = 10_000

# Numbers in a model for each byte of its files: eight where one has a bit. Modules are
# registered anew when they are loaded and tied, hence more.
NUMBERS_A_BYTE = 64
# What any model may have beside: embeddings of positions and the like, of little memory.
SPARE_NUMBERS = 2**27
# What an empty module takes, in numbers.
LEAST_NUMBERS = 2**14


@contextmanager
def loading(location: Location, file: str) -> Iterator[None]:
    """Turn what goes wrong inside the block into one line about the checkpoint.

    Only calls of other libraries belong inside: an error of ours would pass for damage.

    Args:
        location: Where the checkpoint lies.
        file: The file that is named where each is sound by itself.
    """
    try:
        yield
    except InputError:
        raise
    # Libraries raise any kind of error on files that they did not foresee.
    except BaseException as error:
        if not _is_theirs(error):
            raise
        raise _failure(location, error, file) from None


@contextmanager
def unseen() -> Iterator[None]:
    """Keep off the screen the page that the tokenizers library prints when it panics."""
    with Path(os.devnull).open("w") as nowhere, ExitStack() as stack:
        with suppress(OSError):  # a screen that is gone shows nothing anyway
            screen = os.dup(2)
            stack.callback(os.close, screen)
            stack.callback(os.dup2, screen, 2)
            os.dup2(nowhere.fileno(), 2)
        yield


def _is_theirs(error: BaseException) -> bool:
    """Whether an error is a library's, a panic of tokenizers too, and no interruption."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _failure(location: Location, error: BaseException, file: str) -> InputError:
    words = str(error)
    if re.search(r"out of memory|allocate memory", words) or isinstance(error, MemoryError):
        return location.refuse(
            "does not fit into memory",
            "use model.dtype=bfloat16, or several GPUs with model.device_map=auto",
        )
    if "trust_remote_code" in words:
        return location.refuse(
            "it brings code of its own, which is not run",
            "use a checkpoint whose architecture transformers has",
        )
    if "sentencepiece" in words or "tiktoken" in words:
        return location.refuse(
            "its tokenizer has to be converted",
            "install the converters: pip install sentencepiece tiktoken",
        )
    if isinstance(error, ImportError):
        return location.refuse(f"cannot be loaded: {in_short(error)}", "install it")
    for path in _suspects(location, file):
        if flaw := _flaw(path):
            return _damaged(location, path.name, flaw)
    return _damaged(location, file, in_short(error))


def _damaged(location: Location, file: str, reason: str) -> InputError:
    return incomplete(location, f"{file} cannot be loaded: {reason}")


def _suspects(location: Location, file: str) -> list[Path]:
    """List the files that can be looked at one by one, the likeliest first."""
    found = [path for pattern in SUSPECTS for path in location.folder.glob(pattern)]
    return sorted(found, key=lambda path: (path.name != file, path.name))


def _flaw(path: Path) -> str:
    """Say what is wrong with a file by itself; nothing where it is sound."""
    try:
        path.open("rb").close()  # safetensors calls a file missing that may not be read
        if path.suffix == ".safetensors":
            with safe_open(path, "pt"):
                return ""
        if path.suffix == ".bin":
            torch.load(path, map_location="meta", weights_only=True)
            return ""
        return _flaw_of_object(path, json.loads(path.read_text("utf-8")))
    except OSError as error:
        return error.strerror or in_short(error)
    except RecursionError:
        return "nested too deeply"
    except UnicodeDecodeError:
        return "not valid JSON: not UTF-8"
    except json.JSONDecodeError as error:
        return f"not valid JSON: {in_short(error)}"
    except UnpicklingError:
        # torch's own words are a page that explains how to run what the file holds.
        return "damaged, or holds more than weights; give them as .safetensors"
    except BaseException as error:  # the libraries' own, as in `loading`
        if not _is_theirs(error):
            raise
        return in_short(error)


def _flaw_of_object(path: Path, values: Any) -> str:
    """Say what is wrong with a file that holds JSON; a library may raise as well."""
    if not isinstance(values, dict):
        return "not a JSON object"
    if path.name == "tokenizer.json":
        with unseen():
            Tokenizer.from_file(str(path))
    if path.name == "generation_config.json":
        GenerationConfig.from_pretrained(path.parent)
    if path.name.endswith(".index.json"):
        for name in set(values["weight_map"].values()):
            if not (path.parent / name).is_file():
                return f"it names {shorten(name)}, which is not there"
    return ""


def check_object(location: Location, name: str) -> None:
    """See that a configuration is a JSON object that a library can build something of.

    Args:
        location: Where the checkpoint lies.
        name: The file; it may be missing.

    Raises:
        InputError: It is no JSON object, or has more layers than any model.
    """
    path = location.file(name)
    if path is None:
        return
    if flaw := _flaw(path):
        raise _damaged(location, name, flaw)
    for key, number in _counts_of_layers(json.loads(path.read_text("utf-8"))):
        raise _damaged(location, name, f"no model has {key} = {shorten(str(number))}")


def _counts_of_layers(values: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Yield numbers of layers, or of labels, beyond reason."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _counts_of_layers(value, name)
    elif isinstance(values, list):
        for value in values:
            yield from _counts_of_layers(value, key)
    elif (
        isinstance(values, int | float)
        and values > MOST_LAYERS
        and re.search("layer|first_k|num_labels", key)
    ):
        yield shorten(key), values


@contextmanager
def limited(location: Location, file: str) -> Iterator[None]:
    """Refuse modules that outgrow their checkpoint, while they are built.

    Args:
        location: Where the checkpoint lies.
        file: The configuration that describes them.
    """
    room = 0

    def count(_: nn.Module, name: str, tensor: Any) -> None:
        nonlocal room
        # Only now is a checkpoint of the Hub on this machine, whole.
        room = room or SPARE_NUMBERS + NUMBERS_A_BYTE * _size(location.folder)
        if tensor is not None:
            room -= max(tensor.numel(), LEAST_NUMBERS)
        if room <= 0:
            raise _damaged(location, file, "it describes more than the weights hold")

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
