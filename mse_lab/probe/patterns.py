"""Patterns: a user's regular expressions, searched for within a time limit.

A pattern such as `(a+)+$` can take longer than anybody lives; Python's search lets itself
be interrupted by a signal.
"""

import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mse_lab.errors import InputError, shown

# For the names of one model, which take far below one.
SECONDS = 2.0


def fault_of_pattern(pattern: str) -> str:
    """Say why a text is no regular expression; empty if it is one.

    >>> fault_of_pattern("[a")
    'unterminated character set at position 0'
    """
    try:
        re.compile(pattern)
    except RecursionError:
        return "its groups are nested too deeply"
    except (re.error, OverflowError) as error:
        return str(error)
    return ""


def _expire(number: int, frame: Any) -> None:
    raise TimeoutError


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after so many seconds; never in a thread: no signal reaches it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def find_matching(
    pattern: str,
    names: Iterable[str],
    *,
    where: str = "parameters",
    match: Callable[[str, str], object] = re.search,
) -> set[str]:
    """Find the names that a regular expression matches; by default, somewhere in them.

    >>> find_matching("[.]1[.]", ["layers.1.mlp", "layers.11.mlp"])
    {'layers.1.mlp'}
    """
    what = f"{where}: {shown(pattern)}"
    if fault := fault_of_pattern(pattern):
        raise InputError(f"{what} is no regular expression: {fault}; mend it")
    try:
        with _within(SECONDS):
            return {name for name in names if match(pattern, name)}
    except TimeoutError:
        raise InputError(
            f"{what} was searched for {SECONDS:g} seconds in vain; "
            "write it without a repetition inside a repetition"
        ) from None
