"""The process of a command: however it ends, one line and an exit status say how.

- Ctrl-C ends the process at once, whatever it is doing. As an exception it could be
  swallowed by a library, or become another error; and nothing on the disk needs a clean-up.
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
from typing import TextIO

from mse_lab.console import (
    CLEAR,
    COMMAND_NAME,
    INTERRUPTED,
    INTERRUPTED_LINE,
    complain,
    ending,
    started_by_torchrun,
)

SCREEN_TIMEOUT = 0.5  # Seconds to wait for a stopped or unread screen with the last line.


def _interrupt(*_: object) -> None:
    # From now on Ctrl-C does nothing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not started_by_torchrun() or os.environ.get("RANK") == "0":
        begin = CLEAR if os.isatty(2) else ""
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
    """Let Ctrl-C end this process at once, and show what a screen's encoding lacks."""
    if "--json" in sys.argv:
        with suppress(OSError):  # Either of them may be closed.
            sys.stdout = _keep_apart()
    # A process that a shell starts in the background ignores Ctrl-C, and goes on so.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None stands for a closed one.
            # By lines, so that those about a finished run are not lost with the next run.
            stream.reconfigure(errors="backslashreplace", line_buffering=True)


def exit_status_of(command: Callable[[], int]) -> int:
    """Run a command; return its exit status, whatever happens.

    An unexpected error leaves its traceback in a file that the last line names.
    """
    try:
        status = command()
    except BrokenPipeError:  # Whoever reads, such as `head`, has seen enough.
        status = 0
    except BaseException as error:
        # Libraries also raise errors that are no Exception.
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = error.code
        else:
            status, line = ending(error)
            complain(line)
    if signal.getsignal(signal.SIGINT) is _interrupt:
        # The command is done, so Ctrl-C shall change nothing while Python exits.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        print(end="", flush=True)
    except OSError:  # When Python exits, what a lost screen did not take goes there, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status
