"""Libraries that only some runs need: imported where used, by name of their extra."""

import importlib
from typing import Any

from mse_lab.errors import InputError


def load_extra(library: str, extra: str, key: str) -> Any:
    """Import a library of an extra.

    Args:
        library: Its module.
        extra: The extra of this package that installs it.
        key: What of the probe needs it, for the message.

    Returns:
        The module.

    Raises:
        InputError: It is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise InputError(
            f"{key}: needs a library that cannot be imported ({error}); "
            f"pip install 'mse_lab[{extra}]'"
        ) from None
