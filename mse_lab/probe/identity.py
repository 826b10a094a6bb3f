"""Identity: a digest of foreign code, so that no run mixes two versions of it.

The digest of a module's function covers the source of the module and of what it imports
from the same folder or package; for an installed module only its file. It does not cover
the values that a function reads from outside: variables, files, servers.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, EllipsisType, ModuleType
from typing import Any

from mse_lab.probe.foreign_code import is_installed

UNKNOWN = "unknown: "  # Start of an identity that cannot be determined; the reason follows.

_PACKAGE = Path(__file__).resolve().parents[1]


def digest(value: Any) -> str:
    """Hash nested lists, mappings, texts and numbers."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _files(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files below a folder that may define a dotted name and its packages."""
    parts = [part for part in name.split(".") if part] if len(name) < 200 else []
    for part in parts if all(map(str.isidentifier, parts)) else ():
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
                    name = f"{node.module or ''}.{alias.name}".removesuffix(".*")
                    yield from _files(folder, name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # What `import_module` may be given: "h" or ".h".
                for folder in (root, path.parent):
                    yield from _files(folder, node.value)


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
        if not (file.is_relative_to(_PACKAGE) or is_installed(file)):
            todo += _imported(file, source, root)
    return {Path(key).relative_to(root).as_posix(): hashes[key] for key in sorted(hashes)}


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


def identify(function: Callable[..., Any]) -> str:
    """Identify a function by its file's source: a digest, or `UNKNOWN` and why not."""
    module = sys.modules.get(str(getattr(function, "__module__", None)))
    code, values, bound, defaults, named = (
        getattr(function, f"__{what}__", None)
        for what in ("code", "closure", "self", "defaults", "kwdefaults")
    )
    if module is None or code is None or values or not hasattr(module, "__file__"):
        return f"{UNKNOWN}give a function of a file, without variables around it"
    if bound is not None:
        return f"{UNKNOWN}give a function, not the method of an object"
    try:
        signature = _describe([code, defaults, named])
    except TypeError as error:
        return f"{UNKNOWN}of a default argument, {error}"
    return digest([signature, _hash_sources(module)])


def identify_named(function: Callable[..., Any], name: str) -> str:
    """Identify the code of a function that was imported as `module:function`."""
    names = {name.partition(":")[0], getattr(function, "__module__", None)}
    modules = [sys.modules[key] for key in sorted(map(str, names)) if key in sys.modules]
    return digest([_hash_sources(module) for module in modules])
