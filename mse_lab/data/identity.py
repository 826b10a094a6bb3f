"""Identity: digests of all that a measurement depends on, so that no two are mixed.

Of prompts these are of the texts and rows; of a checkpoint, of the Hub's commit or of the
files that decide what it computes (names, sizes and content, not dates); of a function, of
its code, its default arguments, the source of its file and of those beside it that this one
imports (`imports.py`). What else it imports, and the values that a function reads from
outside, are not covered: variables, files, servers.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import CodeType, EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.data.imports import files_beside
from mse_lab.errors import InputError, in_short, shorten

if TYPE_CHECKING:
    from mse_lab.data.prompts import Prompt

# Start of an identity that cannot be determined; the reason follows.
UNKNOWN_IDENTITY = "unknown: "


def digest(value: Any, plain: Callable[[Any], Any] | None = None) -> str:
    """Hash nested lists, mappings, texts and numbers, and what `plain` makes such."""
    return hashlib.sha256(json.dumps(value, default=plain).encode()).hexdigest()


def digest_arrays(arrays: Mapping[str, NDArray[Any]], *others: Any) -> str:
    """Hash named arrays by their types, shapes and bytes, with other values before them."""
    parts = []
    for name, array in sorted(arrays.items()):
        dtype = array.dtype.descr if array.dtype.names else array.dtype.str
        content = hashlib.sha256(array.tobytes()).hexdigest()
        parts.append([name, dtype, array.shape, content])
    return digest([*others, parts])


def tensor_bytes(tensor: Any) -> bytes:
    """Give the bytes of a tensor of torch, of any type and on any device."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    content: bytes = flat.view(sys.modules["torch"].uint8).numpy().tobytes()
    return content


def as_plain(value: Any) -> Any:
    """Write a value that JSON has not: exactly, an array or tensor by its bytes.

    >>> as_plain(np.int64(3)), as_plain(Decimal("0.10"))
    (3, ['Decimal', '0.10'])
    """
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date | time | timedelta | Decimal) or kind == "NAType":
        return [kind, str(value)]  # The last one is missing in a data frame of pandas.
    if isinstance(value, bytes):
        return [kind, hashlib.sha256(value).hexdigest()]
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype.hasobject else digest_arrays({kind: value})
    tensor: Any = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(value, tensor):
        content = hashlib.sha256(tensor_bytes(value)).hexdigest()
        return [kind, str(value.dtype), list(value.shape), content]
    raise TypeError(f"{kind} is no plain value")


def plain_text(prompt: "Prompt", value: Any) -> str:
    """Write a value of a prompt's row as JSON, alike in every process; or refuse it."""
    try:
        return json.dumps(value, default=as_plain)
    except (TypeError, ValueError, RecursionError, RuntimeError) as error:
        raise InputError(
            f"prompt {shorten(prompt.id)}: its row has a value that cannot be compared "
            f"({in_short(error)}); give texts, numbers, lists, mappings and arrays, or "
            "leave that column out"
        ) from None


def identify_prompts(prompts: Sequence["Prompt"]) -> dict[str, str]:
    """Hash the texts and rows of prompts."""
    rows = [plain_text(one, [one.text, dict(one.record)]) for one in prompts]
    text = f"[{', '.join(rows)}]"
    return {"set of prompts": hashlib.sha256(text.encode()).hexdigest()}


def _file_of(name: object) -> str | None:
    """Hash the file of a module that is loaded, with those beside it that it imports.

    None where there is none: what is typed at a prompt, in a notebook or on standard input.
    """
    module = sys.modules.get(str(name))
    path = Path(getattr(module, "__file__", None) or "")
    if not path.is_file():
        return None
    own = hashlib.sha256(path.read_bytes()).hexdigest()
    start, files = files_beside(path, getattr(module, "__package__", None) or "")
    others = {
        os.path.relpath(file, start): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }
    return digest([own, sorted(others.items())]) if others else own


def _as_plain_code(value: Any) -> Any:
    """Write code, with its constants, for JSON, alike in every process."""
    if isinstance(value, CodeType):
        parts = [value.co_qualname, value.co_firstlineno, value.co_code.hex()]
        # Arguments are columns, too.
        return [*parts, *value.co_names, *value.co_varnames, *value.co_consts]
    if isinstance(value, frozenset | set):  # Their order is not.
        return sorted(map(repr, value))
    return repr(value) if isinstance(value, complex | EllipsisType) else as_plain(value)


def identify_function(function: Callable[..., Any]) -> str:
    """Identify a function by its file's source: a digest, or why it is unknown."""
    code, values, bound, defaults, named = (
        getattr(function, f"__{what}__", None)
        for what in ("code", "closure", "self", "defaults", "kwdefaults")
    )
    source = _file_of(getattr(function, "__module__", None))
    if source is None or code is None or values:
        return f"{UNKNOWN_IDENTITY}give a function of a file, without variables around it"
    if bound is not None:
        return f"{UNKNOWN_IDENTITY}give a function, not the method of an object"
    try:
        return digest([code, defaults, named, source], _as_plain_code)
    except TypeError as error:
        return f"{UNKNOWN_IDENTITY}of a default argument, {error}"


def identify_named(function: Callable[..., Any], name: str) -> str:
    """Identify a function that was imported as `module:function` by its module's file."""
    own = _file_of(getattr(function, "__module__", None))
    return digest([name, _file_of(name.partition(":")[0]), own])
