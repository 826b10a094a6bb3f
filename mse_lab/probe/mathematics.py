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
from typing import IO, Any, cast

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
    return (
        math_verify.verify(reference, parsed, timeout_seconds=None) if reference else None
    )


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


class _Verifier:
    """The other process, ready for questions."""

    def __init__(self) -> None:
        # In a group of its own: Ctrl-C is for this process to heed. It ends with its input.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8", process_group=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        if self._read() != _READY:
            self.close()
            raise InputError("reward = math: math-verify does not start; install it anew")

    def _read(self) -> str:
        return cast(IO[str], self._process.stdout).readline().strip()

    def ask(self, question: str) -> str:
        """Put a question; the answer is empty where the process has ended over it."""
        asked = cast(IO[str], self._process.stdin)
        with suppress(BrokenPipeError):
            asked.write(question + "\n")
            asked.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()


_lock = threading.Lock()


@cache
def _verifier() -> _Verifier:
    verifier = _Verifier()
    atexit.register(verifier.close)
    return verifier


def are_equal(text: str, answer: str) -> bool | None:
    """Compare a completion with a reference; None where that holds no mathematics.

    Raises:
        GaveUp: It took too long or too much memory.
    """
    with _lock:
        verifier, found = _verifier(), ""
        try:
            found = verifier.ask(json.dumps([SECONDS, text, answer]))
        finally:
            # Also after Ctrl-C: its answer is none to the next question.
            if not found:
                verifier.close()
                atexit.unregister(verifier.close)
                _verifier.cache_clear()
    if not found:
        raise GaveUp
    return cast("bool | None", json.loads(found))
