"""Fuzzing of two sizes, 25 cases in the suite and thousands by `make fuzz`; its promise.

Put `@CASES` below `@given(...)`; `FUZZ_CASES` sets how many a test tries. As of all tests
(`conftest.py`) they are the same on every machine, so that a failure can be repeated.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import settings

from mse_lab.errors import InputError

CASES = settings(max_examples=int(os.environ.get("FUZZ_CASES", "25")))


def answer_or_one_line(action: Callable[..., Any], *args: Any) -> Any:
    """Do something; None where it is refused, in one line that can be shown anywhere."""
    try:
        return action(*args)
    except InputError as error:
        message = str(error)
        assert message.isprintable()
        assert 10 < len(message) <= 1000
        assert " " in message
        return None
