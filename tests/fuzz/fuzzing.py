"""Fuzzing of two sizes, 25 cases in the suite and thousands by `make fuzz`; its promise.

Put `@CASES` below `@given(...)`. The cases are the same on every machine, so that a failure
can be repeated; `FUZZ_CASES` sets how many a test tries.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

from mse_lab.errors import InputError

CASES = settings(
    max_examples=int(os.environ.get("FUZZ_CASES", "25")),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


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
