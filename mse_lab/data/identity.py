"""Identity: a digest of foreign code, so that no run mixes two versions of it.

The digest of a function covers its code, its default arguments, and the source of its file.
It does not cover what that file imports, nor the values that a function reads from outside:
variables, files, servers.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, EllipsisType
from typing import Any

UNKNOWN_IDENTITY = (
    "unknown: "  # Start of an identity that cannot be determined; the reason follows.
)


def digest(value: Any) -> str:
    """Hash nested lists, mappings, texts and numbers."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _source(function: Callable[..., Any]) -> str | None:
    """Hash the file that a function was written in; None where there is none."""
    module = sys.modules.get(str(getattr(function, "__module__", None)))
    file = getattr(module, "__file__", None)
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _describe(value: Any) -> Any:
    """Write code, with its constants, or a plain value for JSON, alike in every process."""
    if isinstance(value, CodeType):
        parts = [value.co_qualname, value.co_firstlineno, value.co_code.hex()]
        names = [*value.co_names, *value.co_varnames]  # Arguments are columns, too.
        return [*parts, *names, *map(_describe, value.co_consts)]
    if isinstance(value, frozenset | set):  # Their order is not.
        return sorted(map(repr, value))
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(_describe, value)]
    if isinstance(value, dict):
        return [[_describe(key), _describe(part)] for key, part in value.items()]
    if not isinstance(value, str | bytes | int | float | complex | None | EllipsisType):
        raise TypeError(f"{type(value).__name__} is no plain value")
    return repr(value)


def identify_function(function: Callable[..., Any]) -> str:
    """Identify a function by its file's source: a digest, or why it is unknown."""
    code, values, bound, defaults, named = (
        getattr(function, f"__{what}__", None)
        for what in ("code", "closure", "self", "defaults", "kwdefaults")
    )
    source = _source(function)
    if source is None or code is None or values:
        return f"{UNKNOWN_IDENTITY}give a function of a file, without variables around it"
    if bound is not None:
        return f"{UNKNOWN_IDENTITY}give a function, not the method of an object"
    try:
        signature = _describe([code, defaults, named])
    except TypeError as error:
        return f"{UNKNOWN_IDENTITY}of a default argument, {error}"
    return digest([signature, source])


def identify_named(function: Callable[..., Any], name: str) -> str:
    """Identify a function that was imported as `module:function` by its module's file."""
    module = sys.modules.get(name.partition(":")[0])
    file = getattr(module, "__file__", None)
    named = None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return digest([name, named, _source(function)])
