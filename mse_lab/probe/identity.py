"""Identity: a digest of what foreign code does, so that no run mixes two versions of it.

A function of a module counts with the source of its module and of what that imports from
the same folder or package; of an installed module its own file counts alone. A function
that was made in Python, such as a lambda, counts with its code, its defaults and the values
it takes from around it. What code reads while it runs, a file or a server, is not seen.
"""

import ast
import dis
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from mse_lab.probe.foreign_code import INSTALLED, OWN_MODULES, PROJECT

# What an identity begins with where it is not known; the reason follows.
UNKNOWN = "unknown: "

_PLACES_OF_OTHERS = (*OWN_MODULES, Path(PROJECT) / "mse_lab")
_ATOMS = (type(None), type(...), bool, int, float, complex, str, bytes)


class _UnknownError(Exception):
    """A value whose content cannot be compared."""


def digest(value: Any) -> str:
    """Hash nested lists, mappings, texts and numbers."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _is_installed(path: Path) -> bool:
    """Whether a file is a library's, Python's or this package's."""
    places = any(path.is_relative_to(one) for one in _PLACES_OF_OTHERS)
    return places or not INSTALLED.isdisjoint(path.parts)


def _files(place: Path, name: str) -> Iterator[Path]:
    """Yield where below a folder a dotted name and its packages may be defined."""
    for part in filter(None, name.split(".")):
        place = place / part
        yield from (place.with_suffix(".py"), place / "__init__.py")


def _imported(path: Path, source: bytes, root: Path) -> Iterator[Path]:
    """Yield where the imports in a file may be defined, those within functions, too."""
    with suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                for one in node.names:
                    yield from _files(root, one.name)
            elif isinstance(node, ast.ImportFrom):
                place = [root, *path.parents][min(node.level, len(path.parents))]
                for one in node.names:
                    yield from _files(place, f"{node.module or ''}.{one.name}")


def _hash_sources(module: ModuleType) -> dict[str, str]:
    """Hash a module's file and those that it imports from its folder or package."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if file is None:
        return {}
    path = Path(file).absolute()
    above = name.count(".") + (path.stem == "__init__")
    root = path.parents[min(above, len(path.parents) - 1)]
    package = root / name.partition(".")[0]
    home = package if path.is_relative_to(package) else root
    found: dict[str, str] = {}
    todo = [path, *_files(root, name)]
    while todo:
        one = todo.pop()
        key = str(one)
        if key in found or not one.is_relative_to(home) or not one.is_file():
            continue
        source = one.read_bytes()
        found[key] = hashlib.sha256(source).hexdigest()
        if not _is_installed(one):
            todo += _imported(one, source, root)
    return {Path(one).relative_to(root).as_posix(): found[one] for one in sorted(found)}


def _module_of(value: Any) -> ModuleType | None:
    """Find the module that has a function or class under its name; not what is started."""
    found = module = sys.modules.get(getattr(value, "__module__", None) or "__main__")
    if module is None or module.__name__ == "__main__":
        return None
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return module if found is value else None


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and not _is_installed(Path(file))


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the global names that code looks up, and what is defined in it."""
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield one.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _parts_of_function(function: FunctionType) -> tuple[Any, ...]:
    """Give what a function does: its code, its defaults, what it takes from around it."""
    code, known = function.__code__, function.__globals__
    around = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            around.append(cell.cell_contents)
    used = ((name, known[name]) for name in sorted({*_globals_of(code)} & known.keys()))
    return code, function.__defaults__, function.__kwdefaults__, *around, *used


def _parts(value: Any) -> Any:
    """Take a value apart into simpler ones: a tuple, or what stands for it.

    Raises:
        _UnknownError: It is of a kind whose content cannot be compared.
    """
    match value:
        case list() | set() | frozenset():
            return (*value,)
        case dict():
            return (*value.items(),)
        case CodeType():
            return value.co_code, value.co_names, value.co_consts
        case ModuleType():
            return value.__name__, _hash_sources(value) if _is_own(value) else None
        case FunctionType() | type() if module := _module_of(value):
            return value.__qualname__, module
        case FunctionType():
            return _parts_of_function(value)
        case MethodType():
            return value.__func__, value.__self__
        case BuiltinFunctionType():
            return value.__qualname__, value.__self__
        case partial():
            return value.func, value.args, value.keywords
        case re.Pattern():
            return value.pattern, value.flags
        case np.ndarray() | np.generic() if not value.dtype.hasobject:
            return value.dtype.str, value.shape, value.tobytes()
    if hasattr(value, "__wrapped__"):  # such as by functools.lru_cache
        return value.__wrapped__
    module = _module_of(type(value))
    if module is not None and _is_own(module) and hasattr(value, "__dict__"):
        return type(value), vars(value)
    raise _UnknownError(f"it holds a {type(value).__qualname__}, which cannot be compared")


def _describe(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    """Describe what a value is, or does, by what JSON can hold.

    Args:
        value: Any.
        seen: What is described already, by its place in memory: its number, and itself.
    """
    if isinstance(value, _ATOMS):
        return repr(value)
    parts = value
    if not isinstance(value, tuple):
        if id(value) in seen:
            return seen[id(value)][0]
        seen[id(value)] = len(seen), value
        parts = _parts(value)
    if not isinstance(parts, tuple):
        return _describe(parts, seen)
    found = [_describe(one, seen) for one in parts]
    if isinstance(value, set | frozenset):  # in an order that differs from start to start
        found.sort(key=json.dumps)
    return [type(value).__name__, *found]


def identify(function: Callable[..., Any]) -> str:
    """Identify what a function does that was made in Python.

    Returns:
        A digest, or after `UNKNOWN` the reason why there is none.
    """
    try:
        return digest(_describe(function, {}))
    except (_UnknownError, RecursionError) as error:
        return f"{UNKNOWN}{error}"


def identify_named(function: Callable[..., Any], name: str) -> str:
    """Identify what a function does that was imported by its name, `module:function`."""
    names = {name.partition(":")[0], getattr(function, "__module__", None)}
    modules = [sys.modules[one] for one in sorted(map(str, names)) if one in sys.modules]
    return digest([_hash_sources(one) for one in modules])
