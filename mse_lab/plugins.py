"""A user's own reward or estimator, named `package.module:function`."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from mse_lab.config import InputError


def load_function(name: str, key: str) -> Callable[..., Any]:
    """Import the function that a probe names.

    Args:
        name: `package.module:function`.
        key: The probe's key, for messages.

    Raises:
        InputError: The module cannot be imported or holds no such function.
    """
    module_name, _, function_name = name.partition(":")
    # A user's module lies where the command is started, which a script does not search.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(f"{key} = {name}: cannot import {module_name} ({error})") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError(f"{key} = {name}: {module_name} has no function {function_name}")
    return function
