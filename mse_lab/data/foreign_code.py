"""Foreign code: optional libraries, and a user's reward or estimator.

An error of foreign code becomes one line, which names a file with the traceback.
"""

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stdout
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np

from mse_lab.console import describe_error, write_traceback
from mse_lab.errors import InputError, install, nearest
from mse_lab.project import PROJECT

# Folders of Python's library and commands, and names of the folders of packages.
STANDARD_LIBRARY = {
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "scripts")
}
INSTALLED = {"site-packages", "dist-packages"}

# The one module of this project's clone that a probe may name from anywhere.
OFFERED = "probes.phase.rewards"


def load_extra(library: str, extra: str, key: str) -> Any:
    """Import a library that `key` needs and that an extra of this package installs."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise InputError(
            f"{key}: needs a library that cannot be imported ({error}); {install(extra)}"
        ) from None


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

    What the code prints goes to standard error, and the working folder is restored if it
    changes it.
    """
    try:
        with chdir("."), redirect_stdout(sys.stderr):
            yield
    except (KeyboardInterrupt, InputError):
        raise
    except BaseException as error:  # Foreign code may raise SystemExit, too.
        reason = f"{describe_error(error)}; its traceback is in {write_traceback(error)}"
        raise InputError(f"{what}: {reason}") from None


def _is_refused(spec: ModuleSpec) -> bool:
    """Whether a module is not the user's; what has no file is Python's, or runs nothing."""
    if not spec.has_location or not spec.origin:
        return not spec.submodule_search_locations
    path = Path(spec.origin).resolve()
    return bool({*path.parents} & STANDARD_LIBRARY or {*path.parts} & INSTALLED)


def _refuse_foreign(module: str, what: str) -> None:
    """Refuse a module that is not the user's, before it or a package around it is run.

    A probe may come from anybody, and the function that it names is called with
    completions: `exec` would run them.
    """
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        # This runs the packages around it, which have passed.
        spec = importlib.util.find_spec(".".join(parts[:end]))
        if spec is not None and _is_refused(spec):
            raise InputError(
                f"{what}: {module} belongs to Python or an installed package; "
                "name a function in a module of your own, which may call it"
            )


def load_function(name: str, key: str) -> tuple[Callable[..., Any], str]:
    """Import the `package.module:function` that a key names; describe it for messages."""
    module_name, _, function_name = name.partition(":")
    what = f"{key} = {name}"
    if module_name.endswith(".py"):
        module_name = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise InputError(f"{what}: write {module_name}:{function_name or 'function'}")
    if not all(map(str.isidentifier, [*module_name.split("."), function_name])):
        raise InputError(f"{what}: write package.module:function")
    # A user's module lies in the working folder, which a script does not search.
    if "" not in sys.path:
        sys.path.insert(0, "")
    if module_name == OFFERED and str(PROJECT) not in sys.path:
        sys.path.append(str(PROJECT))
    with guard(f"{what}: cannot import {module_name}"):
        try:
            _refuse_foreign(module_name, what)
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if not f"{module_name}.".startswith(f"{error.name}."):
                raise
            where = f"start where {module_name.partition('.')[0]} lies"
            line = f"{what}: cannot import {module_name} ({error}); {where}"
            raise InputError(line) from None
        function = getattr(module, function_name, None)
        file = getattr(module, "__file__", None) or "built in"
    if not callable(function):
        known = [one for one, each in vars(module).items() if callable(each)]
        line = f"{module_name} has no function {function_name}"
        raise InputError(f"{what}: {line}; {nearest(function_name, known)}")
    return function, f"{what} ({file})"
