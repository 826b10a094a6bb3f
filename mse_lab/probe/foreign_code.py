"""Foreign code: the libraries of extras, and a user's own reward or estimator.

Whatever it does, short of ending the process, becomes one line that names it; the traceback
that its author needs lies in a file.
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

from mse_lab.console import keep_details, last_words
from mse_lab.errors import InputError

PROJECT = str(Path(__file__).resolve().parents[2])

# Where Python has its own modules, and the names of folders that hold installed ones.
OWN_MODULES = {Path(sysconfig.get_path(one)).resolve() for one in ("stdlib", "platstdlib")}
INSTALLED = {"site-packages", "dist-packages"}


def load_extra(library: str, extra: str, key: str) -> Any:
    """Import a library that the extra of this package installs, for a key of the probe."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise InputError(
            f"{key}: needs a library that cannot be imported ({error}); "
            f"pip install 'mse_lab[{extra}]'"
        ) from None


def protect(value: Any) -> Any:
    """Copy the mappings, lists and arrays of what foreign code gets; arrays read-only."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    elif isinstance(value, Mapping):
        return {key: protect(one) for key, one in value.items()}
    elif isinstance(value, list):
        return [protect(one) for one in value]
    return value


@contextmanager
def guard(what: str) -> Iterator[None]:
    """Turn whatever foreign code raises into one line: `what` has failed, and how.

    If it leaves the working folder, our relative paths lead where they did.
    """
    try:
        with chdir("."):
            yield
    except (KeyboardInterrupt, InputError):
        raise
    except BaseException as error:  # The one place: foreign code may raise SystemExit, too.
        reason = f"{last_words(error)}; its traceback is in {keep_details(error)}"
        raise InputError(f"{what}: {reason}") from None


def _see_own(module: str, what: str) -> None:
    """See that a module is the user's, before it is imported.

    A probe may come from anybody, and completions may be given to what it names: `exec`
    would carry them out.
    """
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        return
    places = [Path(one).resolve() for one in spec.submodule_search_locations or ()]
    if spec.has_location and spec.origin:
        places.append(Path(spec.origin).resolve())
    if not places or any(
        OWN_MODULES & set(place.parents) or INSTALLED & set(place.parts) for place in places
    ):
        raise InputError(
            f"{what}: {module} is Python's or an installed package's; name a function in a "
            "module of your own, which may call it"
        )


def load_function(name: str, key: str) -> tuple[Callable[..., Any], str]:
    """Import the `package.module:function` that a key names; say which, for messages."""
    module_name, _, function_name = name.partition(":")
    what = f"{key} = {name}"
    if not all(map(str.isidentifier, [*module_name.split("."), function_name])):
        raise InputError(f"{what}: write package.module:function")
    # A user's module lies where the command is started, which a script does not search.
    if "" not in sys.path:
        sys.path.insert(0, "")
    # The project's own lies among its probes, which are not installed.
    if PROJECT not in sys.path:
        sys.path.append(PROJECT)
    with guard(f"{what}: cannot import {module_name}"):
        _see_own(module_name, what)
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
