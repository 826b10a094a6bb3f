"""Mathematics: math-verify in another process with limits of time and memory.

A completion may hold `9^9^9^9` or a factorial. math-verify's own limits are signals to the
main thread: it refuses any other one, and where sympy finds gmpy2, `(10^9)!` goes on (for
25 s, where it was tried with a limit of one). So the operating system ends the other
process when its time is up. The comparison is then given up, and the next one starts a new
process.
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

# Limits of a comparison: seconds of processor time, so that a busy machine does not change
# a reward; and bytes.
SECONDS, MEMORY = 5.0, 4 * 2**30


class GaveUp(Exception):
    """A comparison took too long or too much memory."""


@lru_cache(maxsize=64)
def _reference(answer: str) -> tuple[Any, ...]:
    import math_verify

    if marked := re.search(r"####\s*(.+)", answer):
        answer = marked[1]
    # Bare LaTeX is put in a box: otherwise 11\sqrt{2} would be read as 11.
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
    """Compare the texts of each line of JSON on standard input."""
    import math_verify  # noqa: F401  Imported before the first time limit.

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # Output that libraries print must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    print(_READY, file=answers, flush=True)
    for line in sys.stdin:
        seconds, text, answer = json.loads(line)
        # By default this signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        equal = _compare(text, answer)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(equal), file=answers, flush=True)


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
    """Start the other process, which ends when its input is closed."""
    # A process group of its own does not receive Ctrl-C.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if _read(process) != _READY:
        _end(process)
        raise InputError("reward = math: math-verify does not start; reinstall it")
    atexit.register(_end, process)
    return process


def are_equal(text: str, answer: str) -> bool | None:
    """Compare a completion with a reference; None if the reference has no mathematics.

    Raises:
        GaveUp: It took too long or too much memory.
    """
    with _lock:
        process, line = _process(), ""
        try:
            with suppress(BrokenPipeError):
                print(json.dumps([SECONDS, text, answer]), file=process.stdin, flush=True)
            line = _read(process)
        finally:
            # Also after Ctrl-C: a late answer must not be read for the next comparison.
            if not line:
                _process.cache_clear()
                atexit.unregister(_end)
                _end(process)
    if not line:
        raise GaveUp
    return cast("bool | None", json.loads(line))
