"""Progress: one line that fits the terminal, or a few where there is none."""

import fcntl
import os
import pty
import struct
import sys
import termios
from contextlib import suppress
from types import SimpleNamespace

import pytest

from mse_lab.run import progress as shown_progress
from mse_lab.run.progress import Progress

# Half of its reward is won, a quarter of its completions are cut.
HALF = SimpleNamespace(mean_reward=0.5, completions=SimpleNamespace(truncated=0.25))


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that sets a terminal's columns; it gives one to read its screen."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    stream = os.fdopen(theirs, "w")
    monkeypatch.setenv("TERM", "xterm")

    def read():
        stream.flush()
        found = b""
        with suppress(BlockingIOError):
            while True:
                found += os.read(ours, 10**6)
        return found.decode()

    def resize(columns):
        # Not before the test itself: pytest sets its own in between.
        monkeypatch.setattr(sys, "stderr", stream)
        size = struct.pack("4H", 24 if columns < 200 else 0, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        return read

    yield resize
    stream.close()
    os.close(ours)


def drawn(text):
    """Give what the line held in turn, each written over the one before."""
    return [
        line.rstrip() for line in text.replace("\x1b[K", "").split("\r") if line.strip()
    ]


def count(line, *ends, total=60, done=2):
    """Count up to a total, with a line as that of a run."""
    with line:
        line.begin(total, done)
        for end in ends:
            line.count(end, 1, [HALF])


def run_line(name="tiny/base", *, hidden=False):
    return Progress(name, "prompts", hidden=hidden)


@pytest.mark.parametrize("columns", [200, 80, 60, 40, 0])
def test_the_line_fits_the_terminal(columns, terminal):
    """A terminal that does not know its columns counts as one of 80."""
    read = terminal(columns)
    count(run_line(), 59)
    first, *_, last = drawn(read())
    assert first.startswith("tiny/base: 3%|")
    assert last.startswith("tiny/base: 98%|"[: (columns or 80) - 1])
    assert all(len(line) < (columns or 80) for line in (first, last))
    if columns in (80, 200):
        assert "59/60 prompts [" in last
        assert last.endswith(", mean reward 0.50, 25% cut]")


def test_a_terminal_may_be_resized(terminal):
    read = terminal(80)
    with run_line() as line:
        line.begin(60, 59)
        wide = drawn(read())[-1]
        terminal(30)
        line.count(60, 1, [HALF])
    narrow = drawn(read())[-1]
    assert len(wide) > 60
    assert len(narrow) < 30


def test_without_a_terminal_there_is_a_line_each_minute(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(shown_progress.time, "monotonic", lambda: now)
    with run_line("small") as line:
        line.begin(1000, 20)
        for prompts in range(21, 121):
            now += 7.0
            line.count(prompts, 1, [HALF])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 700 // 63
    assert lines[0].startswith("small: 3%, 29/1000 prompts [")
    assert all(line.endswith(", mean reward 0.50, 25% cut]") for line in lines)
    assert all(line.isprintable() for line in lines)


def show_looks(*, hidden=False):
    """The second start of an advice, which finds 16 completions and may draw 1,000."""
    with Progress("small", "completions", hidden=hidden, most=1000) as line:
        line.write(lambda: ["first prompt: 1 2"])
        line.begin(384, 16)
        line.count(384, 368, [HALF])
        line.say(48, 384, "best group size 4 to 12")
        line.begin(768, 384)
        line.count(576, 192, [HALF])


def test_looks_at_a_terminal(terminal):
    """What a look says has a line of its own, above that of what is drawn."""
    read = terminal(80)
    show_looks()
    _, first, *lines, last = drawn(read())
    assert "16/1000 completions [" in first
    assert "48 prompts, 384 completions, 0 s: best group size 4 to 12" in lines
    assert "576/1000 completions [" in last
    assert last.endswith(", mean reward 0.50, 25% cut]")


def test_the_time_to_come_is_by_what_this_start_has_drawn(terminal):
    """84 of the 184 that were missing in 10 s: 100 more take 12 s."""
    read = terminal(100)
    with Progress("small", "completions", hidden=False) as line:
        line.begin(384, 200)
        line._bar.start_t = line._bar._time() - 10
        line.count(284, 84, [HALF])
    assert "284/384 completions [00:10<00:11" in read()


def test_another_process_shows_nothing(capsys):
    count(run_line(hidden=True), 59)
    show_looks(hidden=True)
    assert not capsys.readouterr().err
