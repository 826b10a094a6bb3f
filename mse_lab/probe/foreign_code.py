"""Foreign code: optional libraries, and a user's reward or estimator.

An error of foreign code becomes one line, which names a file with the traceback.
"""

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mse_lab.console import describe_error, write_traceback
from mse_lab.errors import InputError, install
from mse_lab.project import PROJECT

# Folders of Python's standard library, and names of the folders of installed packages.
STANDARD_LIBRARY = {
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")
}
INSTALLED = {"site-packages", "dist-packages"}


def load_extra(library: str, extra: str, key: str) -> Any:
    """Import a library that `key` needs and that an extra of this package installs."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise InputError(
            f"{key}: needs a library that cannot be imported ({error}); {install(extra)}"
        ) from None


def is_installed(path: Path) -> bool:
    """Whether a file belongs to Python or a package; the project's probes do not."""
    if path.is_relative_to(PROJECT / "probes"):
        return False
    return bool(STANDARD_LIBRARY & set(path.parents) or INSTALLED & set(path.parts))


def protect(value: Any) -> Any:
    """Copy nested mappings, lists and arrays for foreign code; arrays are read-only."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    elif isinstance(value, Mapping):
        return {key: protect(part) for key, part in value.items()}
    elif isinstance(value, list):
        return [protect(part) for part in value]
    return value


@contextmanager
def guard(what: str) -> Iterator[None]:
    """Turn an error of foreign code into one line that begins with `what`.

    The working folder is restored if the code changes it.
    """
    try:
        with chdir("."):
            yield
    except (KeyboardInterrupt, InputError):
        raise
    except BaseException as error:  # Foreign code may raise SystemExit, too.
        reason = f"{describe_error(error)}; its traceback is in {write_traceback(error)}"
        raise InputError(f"{what}: {reason}") from None


def _refuse_installed(module: str, what: str) -> None:
    """Refuse a module that is not the user's, before it is imported.

    A probe may come from anybody, and the function that it names is called with
    completions: `exec` would run them.
    """
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        return
    paths = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]
    if spec.has_location and spec.origin:
        paths.append(Path(spec.origin).resolve())
    if not paths or any(map(is_installed, paths)):
        raise InputError(
            f"{what}: {module} belongs to Python or an installed package; name a function "
            "in a module of your own, which may call it"
        )


def load_function(name: str, key: str) -> tuple[Callable[..., Any], str]:
    """Import the `package.module:function` that a key names; describe it for messages."""
    module_name, _, function_name = name.partition(":")
    what = f"{key} = {name}"
    if not all(map(str.isidentifier, [*module_name.split("."), function_name])):
        raise InputError(f"{what}: write package.module:function")
    # A user's module lies in the working folder, which a script does not search.
    if "" not in sys.path:
        sys.path.insert(0, "")
    # The project's modules lie among its probes, which are not installed.
    if str(PROJECT) not in sys.path:
        sys.path.append(str(PROJECT))
    with guard(f"{what}: cannot import {module_name}"):
        _refuse_installed(module_name, what)
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if not f"{module_name}.".startswith(f"{error.name}."):
                raise
            raise InputError(f"{what}: cannot import {module_name} ({error})") from None
        function = getattr(module, function_name, None)
        file = getattr(module, "__file__", None) or "built in"
    if not callable(function):
        raise InputError(f"{what}: {module_name} has no function {function_name}")
    return function, f"{what} ({file})"
