"""The console: however a command ends, one line says so, and an exit status.

- Ctrl-C ends the process at once, whatever it is doing. As an exception it may be
  swallowed, or turned into another error, by the library that it strikes; and nothing on
  the disk needs a clean-up, as after a kill.
- A screen that is gone ends nothing: what is written to it is dropped.
- Every error passes `ending`: the user's, the system's, and those that nobody foresaw.

Imports at the top are those that Python has loaded itself: `set_up_console` runs before all
other imports.
"""

import errno
import io
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from mse_lab.errors import InputError, one_line, shorten


def command_prefix() -> str:
    """Give the words that this command began with, for the next one to begin with."""
    if sys.argv[0].endswith(("mse_lab/__main__.py", "mse_lab/cli.py")):
        return "python -m mse_lab"
    if Path(sys.argv[0]).name != "mse-lab":
        return "python run_mse.py"
    return "mse-lab" if shutil.which("mse-lab") == sys.argv[0] else sys.argv[0]


# What the next command begins with, and an error message.
COMMAND_PREFIX = command_prefix()
NAME = Path(COMMAND_PREFIX.split()[-1]).name

INPUT_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 70, 130

# Seconds in which a screen that is stopped, or that nobody reads, may take the last line.
COURTESY = 0.5

# What a terminal clears the line by that the cursor stands in.
CLEAR = "\r\x1b[K"

# Packages that the commands import, and what helps where one is missing.
REQUIRED = {
    *("torch", "transformers", "numpy", "statsmodels", "seaborn", "matplotlib", "pandas"),
    *("scipy", "tqdm", "pydantic", "yaml", "filelock", "jinja2"),
}
INSTALL = (
    "use .venv/bin/mse-lab, which make figure4 sets up, or install what is needed: "
    "pip install -e ."
)

GO_ON = "interrupted; the same command goes on from here"

# What the system says where the user's files are at fault, and what helps.
REMEDIES = {
    errno.EACCES: "allow it, or name another",
    errno.EPERM: "allow it, or name another",
    errno.ENAMETOOLONG: "shorten it",
    errno.ENOSPC: "free some, or choose another folder",
    errno.EDQUOT: "free some, or choose another folder",
}


class Ending(NamedTuple):
    """How a command ends that an error has ended: with which status, saying what."""

    status: int
    line: str


class Screen(io.TextIOWrapper):
    """Standard output or error; what it cannot take is dropped, and the work goes on.

    Attributes:
        lost: Why it takes no more; None while it does.
        mid_line: Whether a line is begun, such as that of a progress bar.
    """

    lost: OSError | None = None
    mid_line = False

    @classmethod
    def over(cls, stream: TextIO | None) -> "Screen":
        """Take a standard stream over; None stands for one that is closed."""
        # Opened in its place, so that no file of ours gets its number.
        given: Any = stream or Path(os.devnull).open("w")  # noqa: SIM115
        encoding = given.encoding
        # By lines: what is said of a finished run is not to be lost with the next one.
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
            self._let_go(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            super().flush()
        except OSError as error:
            self._let_go(error)

    def _let_go(self, error: OSError) -> None:
        # What is buffered goes there, too, when Python ends.
        self.lost = error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def started_by_torchrun() -> bool:
    """Whether torchrun started this process, and others with it."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE") != "1"


def _interrupt(*_: object) -> None:
    # The first is enough.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not started_by_torchrun() or os.environ.get("RANK") == "0":
        begin = "\n" if getattr(sys.stderr, "mid_line", False) else ""
        # Not by way of the stream, in the midst of whose writing this may come.
        with suppress(OSError):
            if select.select([], [2], [], COURTESY)[1]:
                os.write(2, f"{begin}{NAME}: {GO_ON}\n".encode())
    os._exit(INTERRUPTED)


def set_up_console() -> None:
    """Let Ctrl-C end this process at once, and a screen that is gone end nothing."""
    # Not where a shell started it in the background, to ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, _interrupt)
    sys.stdout, sys.stderr = Screen.over(sys.stdout), Screen.over(sys.stderr)


def columns() -> int | None:
    """Columns of the terminal that standard error is; None where it is none."""
    # A notebook's stream has the number of a terminal that it does not write to.
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return os.get_terminal_size(sys.stderr.fileno()).columns or 80


def fit(parts: Sequence[str], width: int) -> str:
    """Put in a line what has room there, leaving out the last parts first.

    >>> fit(["tiny/base 45%", "27/60 prompts", "15 s left"], 30)
    'tiny/base 45%, 27/60 prompts'
    """
    lines = (", ".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((line for line in lines if len(line) <= width), "".join(parts[:1])[:width])


def show_status(*parts: str) -> None:
    """Show how far the work is, on a terminal alone, in place of what the line holds.

    What a narrow terminal has no room for is left out; without parts the line is cleared.
    """
    if width := columns():
        # The last column stays free: some terminals begin a new line behind it.
        print(CLEAR + fit(parts, width - 1), end="", file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """Print one line on standard error."""
    show_status()
    print(f"{NAME}: {one_line(message)}", file=sys.stderr)


def keep_details(error: BaseException) -> str:
    """Write an error's traceback to a file; say in which."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="backslashreplace",
            prefix="mse_lab-", suffix=".txt", delete=False,
        ) as file:  # fmt: skip
            traceback.print_exception(error, file=file)
    except OSError as failure:
        return f"no file ({failure.strerror}; set TMPDIR)"
    return file.name


def last_words(error: BaseException) -> str:
    """Give an error's kind and text, whatever its text does."""
    try:
        return shorten(f"{type(error).__name__}: {error}", 300)
    except BaseException:  # What an error says of itself may be a user's code.
        return f"{type(error).__name__}, whose own text fails"


def ending(error: BaseException) -> Ending:
    """Say how a command ends that this error has ended."""
    if isinstance(error, InputError):
        return Ending(INPUT_ERROR, str(error))
    if isinstance(error, KeyboardInterrupt):
        return Ending(INTERRUPTED, GO_ON)
    if isinstance(error, ModuleNotFoundError) and error.name in REQUIRED:
        # As where the project's own environment is not the one in use.
        return Ending(
            INPUT_ERROR, f"no package {error.name} in {sys.executable}; {INSTALL}"
        )
    if isinstance(error, MemoryError):
        remedy = "lower pool.replicate or prompts.limit, or use a machine with more"
        return Ending(INPUT_ERROR, f"out of memory: {last_words(error)}; {remedy}")
    if isinstance(error, OSError) and (error.filename or error.errno in REMEDIES):
        remedy = REMEDIES.get(error.errno or 0, "name another")
        where = shorten(str(error.filename or "the disk"))
        return Ending(INPUT_ERROR, f"{where}: {error.strerror}; {remedy}")
    said, where = last_words(error), keep_details(error)
    return Ending(INTERNAL_ERROR, f"internal error: {said}; details in {where}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system has against writing a file or folder into one line.

    Raises:
        InputError: It cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{shorten(str(path))}: cannot be written: {error.strerror}; allow it, or "
            "choose another folder"
        ) from None


def conclude(command: Callable[[], int]) -> int:
    """Carry a command out; return its exit status, whatever happens.

    An error that nobody foresaw leaves its traceback in a file that the line names.
    """
    try:
        status = command()
    except BaseException as error:
        # The last door: libraries raise what is no Exception, too.
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = error.code
        else:
            status, line = ending(error)
            complain(line)
    return _close(status)


def _close(status: int) -> int:
    """Say what was not shown; nobody misses what a reader such as `head` did not read."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        # What is done is interrupted no more, while Python takes its time to end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    lost = getattr(sys.stdout, "lost", None)
    if lost is None or isinstance(lost, BrokenPipeError):
        return status
    complain(f"standard output: {lost.strerror}; not all was shown; send it elsewhere")
    return status or INPUT_ERROR
