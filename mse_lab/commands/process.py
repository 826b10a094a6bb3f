"""The process of a command: however it ends, one line and an exit status say how.

- Ctrl-C ends the process at once, whatever it is doing. As an exception it could be
  swallowed by a library, or become another error; and nothing on the disk needs a clean-up.
- A lost screen does not end a command: what is written to it is dropped.
- All errors pass through `console.ending`: the user's, the system's, and unexpected ones.

This file imports at its top only what Python itself has loaded already, for
`set_up_console` runs before all other imports.
"""

import io
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from mse_lab.console import (
    CLEAR,
    COMMAND_NAME,
    INPUT_ERROR,
    INTERRUPTED,
    INTERRUPTED_LINE,
    complain,
    ending,
    started_by_torchrun,
)

SCREEN_TIMEOUT = 0.5  # Seconds to wait for a stopped or unread screen with the last line.


class Screen(io.TextIOWrapper):
    """Standard output or error. If writing to it fails, the command goes on without it."""

    lost: OSError | None = None  # Why writing failed; None while it works.
    mid_line = False  # Whether the cursor is within a line, such as a progress bar's.

    @classmethod
    def over(cls, stream: TextIO | None) -> "Screen":
        """Replace a standard stream; None stands for a closed one."""
        # A closed stream is opened again, so that no file of ours gets its number.
        given: Any = stream or Path(os.devnull).open("w")  # noqa: SIM115
        encoding = given.encoding
        # By lines, so that those about a finished run are not lost with the next run.
        return cls(
            given.detach(),
            encoding=encoding,
            errors="backslashreplace",
            line_buffering=True,
        )

    def write(self, text: str) -> int:
        """Write, or drop."""
        self.mid_line = not text.endswith(("\n", CLEAR))
        try:
            super().write(text)
        except OSError as error:
            self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        # When Python exits, what is buffered goes there, too.
        self.lost = error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def _interrupt(*_: object) -> None:
    # From now on Ctrl-C does nothing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not started_by_torchrun() or os.environ.get("RANK") == "0":
        begin = "\n" if getattr(sys.stderr, "mid_line", False) else ""
        # Not through the stream, which may be in the middle of a write.
        with suppress(OSError):
            if select.select([], [2], [], SCREEN_TIMEOUT)[1]:
                os.write(2, f"{begin}{COMMAND_NAME}: {INTERRUPTED_LINE}\n".encode())
    os._exit(INTERRUPTED)


def _keep_apart() -> TextIO:
    """Keep standard output for what this process prints; its children's goes to the screen.

    So it is one document where it is read by a program, whatever a reward may start.
    """
    screen = os.fdopen(os.dup(1), "w", encoding=getattr(sys.stdout, "encoding", None))
    os.dup2(2, 1)
    return screen


def set_up_console() -> None:
    """Let Ctrl-C end this process at once, and a lost screen end nothing."""
    if "--json" in sys.argv:
        with suppress(OSError):  # Either of them may be closed.
            sys.stdout = _keep_apart()
    # A process that a shell starts in the background ignores Ctrl-C, and goes on so.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, _interrupt)
    sys.stdout, sys.stderr = Screen.over(sys.stdout), Screen.over(sys.stderr)


def exit_status_of(command: Callable[[], int]) -> int:
    """Run a command; return its exit status, whatever happens.

    An unexpected error leaves its traceback in a file that the last line names.
    """
    try:
        status = command()
    except BaseException as error:
        # Libraries also raise errors that are no Exception.
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = error.code
        else:
            status, line = ending(error)
            complain(line)
    return _close(status)


def _close(status: int) -> int:
    """Report lost output, unless its reader, such as `head`, has closed the pipe."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        # The command is done, so Ctrl-C shall change nothing while Python exits.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", None)
    if lost is None or isinstance(lost, BrokenPipeError):
        return status
    complain(f"standard output: {lost.strerror}; not all was shown; send it elsewhere")
    return status or INPUT_ERROR
