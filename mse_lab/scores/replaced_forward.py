"""A module's forward replaced for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let calling the module call `forward` instead, its hooks as before."""
    missing = object()
    before = vars(module).get("forward", missing)
    module.forward = forward
    try:
        yield
    finally:
        if before is missing:
            del module.forward
        else:
            module.forward = before
