"""Mathematics: math-verify, asked in a process of its own that time and memory limit.

It may be asked for `9^9^9^9` or a factorial, which no signal handler of Python interrupts.
So the other process sets itself an alarm that the system ends it by, and limits its memory;
if it ends without an answer, the question is given up and the next one starts it again.
"""

import atexit
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, cast

from mse_lab.errors import InputError

# For one comparison: seconds of a processor, so that a busy machine changes no reward; and
# bytes, some hundred times what the library itself takes.
SECONDS, MEMORY = 5.0, 4 * 2**30


class GaveUp(Exception):
    """A comparison took too long or too much memory."""


@lru_cache(maxsize=64)
def _reference(answer: str) -> tuple[Any, ...]:
    import math_verify

    if marked := re.search(r"####\s*(.+)", answer):
        answer = marked[1]
    # Bare LaTeX is put in a box: without one, 11\sqrt{2} would be read as its first number.
    delimited = re.search(r"\\boxed|(?<!\\)\$|\\\(|\\\[", answer)
    text = answer if delimited else rf"\boxed{{{answer}}}"
    return tuple(math_verify.parse(text, parsing_timeout=None))


def _compare(text: str, answer: str) -> bool | None:
    import math_verify

    reference = list(_reference(answer))
    parsed = math_verify.parse(text, parsing_timeout=None)
    equal = math_verify.verify(reference, parsed, timeout_seconds=None)
    return bool(equal) if reference else None


def serve() -> None:
    """Answer questions, a line of JSON each, until there are no more."""
    import math_verify  # noqa: F401  Before the clock runs.

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # What libraries print is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    print(_READY, file=answers, flush=True)
    for line in sys.stdin:
        seconds, text, answer = json.loads(line)
        # By default this signal ends the process, whatever library it is in.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        found = _compare(text, answer)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(found), file=answers, flush=True)


_READY, _START = "ready", f"from {__name__} import serve; serve()"
_lock = threading.Lock()


def _read(process: Any) -> str:
    return str(process.stdout.readline().strip())


def _end(process: Any) -> None:
    process.kill()
    with suppress(BrokenPipeError):
        process.communicate()


@cache
def _process() -> Any:
    """Start the other process. It ends with its input."""
    # In a group of its own: Ctrl-C is for this process to heed.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _START],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, encoding="utf-8", process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if _read(process) != _READY:
        _end(process)
        raise InputError("reward = math: math-verify does not start; install it anew")
    atexit.register(_end, process)
    return process


def are_equal(text: str, answer: str) -> bool | None:
    """Compare a completion with a reference; None where that holds no mathematics.

    Raises:
        GaveUp: It took too long or too much memory.
    """
    with _lock:
        process, found = _process(), ""
        try:
            with suppress(BrokenPipeError):
                print(json.dumps([SECONDS, text, answer]), file=process.stdin, flush=True)
            found = _read(process)
        finally:
            # Also after Ctrl-C: its answer is none to the next question.
            if not found:
                _process.cache_clear()
                atexit.unregister(_end)
                _end(process)
    if not found:
        raise GaveUp
    return cast("bool | None", json.loads(found))
