"""The console: what a command says on standard error; however it ends, in one line.

- Ctrl-C ends the process at once, whatever it is doing. As an exception it could be
  swallowed by a library, or become another error; and nothing on the disk needs a clean-up.
- All errors pass through `ending`: the user's, the system's, and unexpected ones.

`set_up_console` runs before all other imports, so those at the top are light.
"""

import errno
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mse_lab.errors import InputError, install, one_line, shorten
from mse_lab.project import PROJECT


def command_prefix() -> str:
    """Give the words that this command began with, so that the next one can be typed."""
    if sys.argv[0].endswith("mse_lab/__main__.py"):
        return "python -m mse_lab"
    if Path(sys.argv[0]).name == "run_mse.py":
        return f"python {sys.argv[0]}"
    if Path(sys.argv[0]).name != "mse-lab":
        return "python run_mse.py" if (PROJECT / "run_mse.py").is_file() else "mse-lab"
    return "mse-lab" if shutil.which("mse-lab") == sys.argv[0] else sys.argv[0]


# How the next command begins, and how an error message does.
COMMAND_PREFIX = command_prefix()
COMMAND_NAME = Path(COMMAND_PREFIX.split()[-1]).name

INPUT_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 70, 130

CLEAR = "\r\x1b[K"  # Clears the line of a terminal that the cursor is in.

# Packages of the extra `measure`, which a message names if a command needs it.
MEASURE = {"torch", "transformers", "tokenizers", "safetensors", "huggingface_hub"}

INTERRUPTED_LINE = "interrupted; the same command goes on from here"

# Errors of the system that have their own remedy.
REMEDIES = {
    errno.EACCES: "allow it, or name another",
    errno.EPERM: "allow it, or name another",
    errno.ENAMETOOLONG: "shorten it",
    errno.ENOSPC: "free some, or choose another folder",
    errno.EDQUOT: "free some, or choose another folder",
}


class Ending(NamedTuple):
    """How an error ends a command: its exit status and its last line."""

    status: int
    line: str


def started_by_torchrun() -> bool:
    """Whether torchrun started this process together with others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE") != "1"


def columns() -> int | None:
    """Give the columns of standard error's terminal; None if it is no terminal."""
    # A notebook's stream has the number of a terminal that it does not write to.
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return os.get_terminal_size(sys.stderr.fileno()).columns or 80


def show_status(text: str = "") -> None:
    """Replace the terminal's line by what the command is doing; without a text, clear it.

    Without a terminal nothing is shown.
    """
    if width := columns():
        # The last column stays free: some terminals begin a new line after it.
        print(CLEAR + text[: width - 1], end="", file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """Print one line on standard error."""
    show_status()
    print(f"{COMMAND_NAME}: {one_line(message)}", file=sys.stderr)


def write_traceback(error: BaseException) -> str:
    """Write an error's traceback to a file; give the file's name."""
    import tempfile
    import traceback

    try:
        handle, name = tempfile.mkstemp(".txt", "mse_lab-")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except OSError as failure:
        return f"no file ({failure.strerror}; set TMPDIR)"
    return name


def describe_error(error: BaseException) -> str:
    """Give an error's type and text, even if its text cannot be made."""
    try:
        return shorten(f"{type(error).__name__}: {error}", 300)
    except BaseException:  # The text of a user's own error is her code.
        return f"{type(error).__name__}, whose own text fails"


def ending(error: BaseException) -> Ending:
    """Give the exit status and the last line for an error that ends a command."""
    if isinstance(error, InputError):
        return Ending(INPUT_ERROR, str(error))
    if isinstance(error, KeyboardInterrupt):
        return Ending(INTERRUPTED, INTERRUPTED_LINE)
    if isinstance(error, ModuleNotFoundError) and error.name:
        # Such as when the project's environment is not active.
        remedy = install("measure" if error.name in MEASURE else None)
        line = f"no package {error.name} in {sys.executable}; {remedy}"
        return Ending(INPUT_ERROR, line)
    if isinstance(error, MemoryError):
        remedy = "lower pool.replicate or prompts.limit, or use a machine with more"
        return Ending(INPUT_ERROR, f"out of memory: {describe_error(error)}; {remedy}")
    if isinstance(error, OSError) and (error.filename or error.errno in REMEDIES):
        remedy = REMEDIES.get(error.errno or 0, "name another")
        where = shorten(str(error.filename or "the disk"))
        return Ending(INPUT_ERROR, f"{where}: {error.strerror}; {remedy}")
    line = f"internal error: {describe_error(error)}; details in {write_traceback(error)}"
    return Ending(INTERNAL_ERROR, line)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Refuse in one line if the system cannot write a file or folder."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{shorten(str(path))}: cannot be written: {error.strerror}; allow it, or "
            "choose another folder"
        ) from None


def _interrupt(*_: object) -> None:
    # From now on Ctrl-C does nothing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not started_by_torchrun() or os.environ.get("RANK") == "0":
        begin = CLEAR if os.isatty(2) else ""
        with suppress(OSError):
            # Not through the stream, which may be in the middle of a write.
            os.write(2, f"{begin}{COMMAND_NAME}: {INTERRUPTED_LINE}\n".encode())
    os._exit(INTERRUPTED)


def set_up_console() -> None:
    """Let Ctrl-C end this process at once, and show what a screen's encoding lacks."""
    if "--json" in sys.argv:
        # Standard output is for what this process prints, one document whatever a reward
        # may start: its children's goes to the screen. Either of them may be closed.
        with suppress(OSError):
            encoding = getattr(sys.stdout, "encoding", None)
            screen = os.fdopen(os.dup(1), "w", encoding=encoding)
            os.dup2(2, 1)
            sys.stdout = screen
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
