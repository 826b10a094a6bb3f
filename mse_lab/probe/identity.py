"""Identity: a digest of foreign code, so that no run mixes two versions of it.

The digest of a module's function covers the source of the module and of what it imports
from the same folder or package; for an installed module only its file. The digest of a
function without a module, such as a lambda, covers its code, its defaults and the outer
variables that it uses. Files or servers that the code reads are not covered.
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

from mse_lab.probe.foreign_code import is_installed
from mse_lab.project import PROJECT

# Start of an identity that cannot be determined; the reason follows.
UNKNOWN = "unknown: "

_PACKAGE = Path(__file__).resolve().parents[1]
_ATOMS = (type(None), type(...), bool, int, float, complex, str, bytes)


class _UnknownError(Exception):
    """A value whose content cannot be compared."""


def digest(value: Any) -> str:
    """Hash nested lists, mappings, texts and numbers."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _is_installed(path: Path) -> bool:
    """Whether a file belongs to a library, Python or this package."""
    ours = path.is_relative_to(_PACKAGE) and not path.is_relative_to(PROJECT / "probes")
    return ours or is_installed(path)


def _files(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files below a folder that may define a dotted name and its packages."""
    for part in filter(None, name.split(".")):
        folder = folder / part
        yield from (folder.with_suffix(".py"), folder / "__init__.py")


def _imported(path: Path, source: bytes, root: Path) -> Iterator[Path]:
    """Yield the files that may define the imports of a file, also in functions."""
    with suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _files(root, alias.name)
            elif isinstance(node, ast.ImportFrom):
                folder = [root, *path.parents][min(node.level, len(path.parents))]
                for alias in node.names:
                    yield from _files(folder, f"{node.module or ''}.{alias.name}")


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
    hashes: dict[str, str] = {}
    todo = [path, *_files(root, name)]
    while todo:
        file = todo.pop()
        key = str(file)
        if key in hashes or not file.is_relative_to(home) or not file.is_file():
            continue
        source = file.read_bytes()
        hashes[key] = hashlib.sha256(source).hexdigest()
        if not _is_installed(file):
            todo += _imported(file, source, root)
    return {Path(key).relative_to(root).as_posix(): hashes[key] for key in sorted(hashes)}


def _module_of(value: Any) -> ModuleType | None:
    """Find the module that has a function or class under its name; not what is started."""
    target = module = sys.modules.get(getattr(value, "__module__", None) or "__main__")
    if module is None or module.__name__ == "__main__":
        return None
    for part in value.__qualname__.split("."):
        target = getattr(target, part, None)
    return module if target is value else None


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and not _is_installed(Path(file))


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the global names that code looks up, and what is defined in it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _parts_of_function(function: FunctionType) -> tuple[Any, ...]:
    """Return a function's code, its defaults and the outer variables that it uses."""
    code, names = function.__code__, function.__globals__
    around = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            around.append(cell.cell_contents)
    used = ((name, names[name]) for name in sorted({*_globals_of(code)} & names.keys()))
    return code, function.__defaults__, function.__kwdefaults__, *around, *used


def _parts(value: Any) -> Any:
    """Split a value into simpler ones: a tuple, or a value in its stead.

    Raises:
        _UnknownError: Values of its type cannot be compared.
    """
    match value:
        case list() | set() | frozenset():
            return (*value,)
        case dict():
            return (*value.items(),)
        case CodeType():
            return value.co_code, value.co_names, value.co_consts
        case ModuleType():
            return value.__name__, _hash_sources(value) if _is_users(value) else None
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
    if module is not None and _is_users(module) and hasattr(value, "__dict__"):
        return type(value), vars(value)
    raise _UnknownError(f"it holds a {type(value).__qualname__}, which cannot be compared")


def _describe(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    """Describe a value by values of JSON.

    Args:
        value: Any.
        seen: id of a value -> its number and the value, for values described before.
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
    described = [_describe(part, seen) for part in parts]
    if isinstance(value, set | frozenset):  # Their order differs between processes.
        described.sort(key=json.dumps)
    return [type(value).__name__, *described]


def identify(function: Callable[..., Any]) -> str:
    """Identify the code of a function.

    Returns:
        A digest, or `UNKNOWN` and the reason why there is none.
    """
    try:
        return digest(_describe(function, {}))
    except (_UnknownError, RecursionError) as error:
        return f"{UNKNOWN}{error}"


def identify_named(function: Callable[..., Any], name: str) -> str:
    """Identify the code of a function that was imported as `module:function`."""
    names = {name.partition(":")[0], getattr(function, "__module__", None)}
    modules = [sys.modules[key] for key in sorted(map(str, names)) if key in sys.modules]
    return digest([_hash_sources(module) for module in modules])
