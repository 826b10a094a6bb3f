"""What every door promises: an answer, or one line that can be shown anywhere."""

from collections.abc import Callable
from typing import Any

from mse_lab.errors import InputError


def answer_or_one_line(action: Callable[..., Any], *args: Any) -> Any:
    """Do something; None where the input is refused, as it should be."""
    try:
        return action(*args)
    except InputError as error:
        message = str(error)
        assert message.isprintable()
        assert 10 < len(message) <= 1000
        assert " " in message
        return None
