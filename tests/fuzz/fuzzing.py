"""Fuzzing of two sizes, 25 cases in the suite and thousands by `make fuzz`; its promise.

Put `@CASES` below `@given(...)`; `FUZZ_CASES` sets how many a test tries. As of all tests
(`conftest.py`) they are the same on every machine, so that a failure can be repeated.
"""

import io
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from mse_lab.errors import InputError

CASES = settings(max_examples=int(os.environ.get("FUZZ_CASES", "25")))
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS


def nested(scalars: Any = SCALARS, keys: Any = TEXTS) -> Any:
    """Lists and mappings, one in another, of what may stand in JSON."""
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
        ),
        max_leaves=6,
    )


def spoil(data: Any, text: Any, nasty: list[str], more: Any = TEXTS) -> Any:
    """Cut, double or overwrite a part of a text, or of bytes."""
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    new = data.draw(st.sampled_from([text[:0], text[start:end] * 2, *nasty]) | more)
    return text[:start] + new + text[end:]


def heard(action: Callable[..., int], *args: Any) -> tuple[int, str]:
    """Run a command; give its exit status and what it says on standard error."""
    shown, said = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(said):
        status = action(*args)
    return status, said.getvalue()


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
