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
from mse_lab.policy.hub import Location

# Files that can be looked at one by one, to say which of them is damaged.
SUSPECTS = (
    *("*config.json", "*token*.json", "vocab.json", "*.index.json", "*.safetensors"),
    *("pytorch_model*.bin", "adapter_model.bin"),
)

# No model has as many layers; lists this long are built before any weight is looked at.
MOST_LAYERS, _COUNT = 10_000, re.compile("layer|first_k|num_labels")

# Numbers in a model for each byte of its files: eight where one has a bit, and modules are
# registered anew when they are loaded and tied; what any model may have beside, embeddings
# of positions and the like, of little memory; what an empty module takes.
NUMBERS_A_BYTE, SPARE_NUMBERS, LEAST_NUMBERS = 64, 2**27, 2**14

# A word of a library's message -> what is the matter, and the remedy.
_KNOWN = {
    "out of memory|allocate memory|MemoryError": (
        "does not fit into memory",
        "use model.dtype=bfloat16, or several GPUs with model.device_map=auto",
    ),
    "trust_remote_code": (
        "it brings code of its own, which is not run",
        "use a checkpoint whose architecture transformers has",
    ),
    "sentencepiece|tiktoken": (
        "its tokenizer has to be converted",
        "install the converters: pip install sentencepiece tiktoken",
    ),
}

_FLAWS: dict[type, str] = {
    RecursionError: "nested too deeply",
    UnicodeDecodeError: "not valid JSON: not UTF-8",
    # torch's own words are a page that explains how to run what the file holds.
    UnpicklingError: "damaged, or holds more than weights; give them as .safetensors",
}


@contextmanager
def loading(location: Location, file: str) -> Iterator[None]:
    """Turn what goes wrong inside the block into one line about the checkpoint.

    Only calls of other libraries belong inside: an error of ours would pass for damage.
    The file is named where each is sound by itself.
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
    words = f"{type(error).__name__}: {error}"
    for pattern, (reason, remedy) in _KNOWN.items():
        if re.search(pattern, words):
            return location.refuse(reason, remedy)
    if isinstance(error, ImportError):
        return location.refuse(f"cannot be loaded: {in_short(error)}", "install it")
    found = (path for pattern in SUSPECTS for path in location.folder.glob(pattern))
    # The likeliest first.
    for path in sorted(found, key=lambda path: (path.name != file, path.name)):
        if flaw := _flaw(path):
            return location.damaged(path.name, flaw)
    return location.damaged(file, in_short(error))


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
    except json.JSONDecodeError as error:
        return f"not valid JSON: {in_short(error)}"
    except BaseException as error:  # the libraries' own, as in `loading`
        if not _is_theirs(error):
            raise
        return _FLAWS.get(type(error), in_short(error))


def _flaw_of_object(path: Path, values: Any) -> str:
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
    """See that a configuration, if it is there, is JSON that a library can build from."""
    path = location.file(name)
    if path is None:
        return
    if flaw := _flaw(path):
        raise location.damaged(name, flaw)
    for key, number in _excessive_counts(json.loads(path.read_text("utf-8"))):
        raise location.damaged(name, f"no model has {key} = {shorten(str(number))}")


def _excessive_counts(values: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _excessive_counts(value, name)
    elif isinstance(values, list):
        for value in values:
            yield from _excessive_counts(value, key)
    elif isinstance(values, int | float) and _COUNT.search(key) and values > MOST_LAYERS:
        yield shorten(key), values


@contextmanager
def limited(location: Location, file: str) -> Iterator[None]:
    """Refuse modules that outgrow their checkpoint, while they are built as a file says."""
    room = 0

    def count(_: nn.Module, name: str, tensor: Any) -> None:
        nonlocal room
        if not room:  # Only now is a checkpoint of the Hub on this machine, whole.
            files = (path for path in location.folder.iterdir() if path.is_file())
            size = sum(path.stat().st_size for path in files)
            room = SPARE_NUMBERS + NUMBERS_A_BYTE * size
        if tensor is not None:
            room -= max(tensor.numel(), LEAST_NUMBERS)
        if room <= 0:
            raise location.damaged(file, "it describes more than the weights hold")

    with ExitStack() as stack:
        stack.callback(register_module_parameter_registration_hook(count).remove)
        stack.callback(register_module_buffer_registration_hook(count).remove)
        yield
