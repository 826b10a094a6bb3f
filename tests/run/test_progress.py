"""Progress: one line that fits the terminal, or a few where there is none."""

import fcntl
import os
import pty
import struct
import sys
import termios
from contextlib import suppress

import pytest

from mse_lab.run import progress as shown_progress
from mse_lab.run.progress import Progress, Tally

LONGEST = Tally(57, 28.5, 14.25)


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that sets a terminal's columns, and one that reads its screen."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    stream = os.fdopen(theirs, "w")
    monkeypatch.setenv("TERM", "xterm")

    def resize(columns):
        # Not before the test itself: pytest sets its own in between.
        monkeypatch.setattr(sys, "stderr", stream)
        size = struct.pack("4H", 24 if columns < 200 else 0, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)

    def read():
        stream.flush()
        found = b""
        with suppress(BlockingIOError):
            while True:
                found += os.read(ours, 10**6)
        return found.decode()

    yield resize, read
    stream.close()
    os.close(ours)


def drawn(text):
    """Give what the line held in turn, each written over the one before."""
    return [
        line.rstrip() for line in text.replace("\x1b[K", "").split("\r") if line.strip()
    ]


def count(line, *tallies, total=60, done=2):
    """Count up to a total, with a line as that of a run."""
    with line:
        line.begin(total, done)
        for tally in tallies:
            line.show(tally)


def run_line(name="tiny/base", *, hidden=False):
    return Progress(name, "prompts", hidden=hidden)


@pytest.mark.parametrize("columns", [200, 80, 60, 40, 0])
def test_the_line_fits_the_terminal(columns, terminal):
    """A terminal that does not know its columns counts as one of 80."""
    resize, read = terminal
    resize(columns)
    count(run_line(), LONGEST)
    first, *_, last = drawn(read())
    assert first.startswith("tiny/base: 3%|")
    assert last.startswith("tiny/base: 98%|"[: (columns or 80) - 1])
    assert all(len(line) < (columns or 80) for line in (first, last))
    if columns in (80, 200):
        assert "59/60 prompts [" in last
        assert last.endswith(", mean reward 0.50, 25% cut]")


def test_a_terminal_may_be_resized(terminal):
    resize, read = terminal
    resize(80)
    with run_line() as line:
        line.begin(60, 2)
        line.show(LONGEST)
        resize(30)
        line.show(LONGEST)
    *_, wide, narrow, _ = drawn(read())
    assert len(wide) > 60
    assert len(narrow) < 30


def test_without_a_terminal_lines_are_few(capsys):
    tallies = [Tally(n, 0.5 * n, 0.25 * n) for n in [*range(1, 81), 80]]
    count(run_line("small"), *tallies, total=100, done=20)
    lines = capsys.readouterr().err.splitlines()
    starts = [f"small: {n}%, {n}/100 prompts [" for n in (25, 50, 75, 100)]
    assert len(lines) == 4
    assert all(map(str.startswith, lines, starts)), lines
    assert lines[-1].endswith(", mean reward 0.50, 25% cut]")
    assert all(line.isprintable() for line in lines)


def test_without_a_terminal_a_long_run_tells_every_minute(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(shown_progress.time, "monotonic", lambda: now)
    with run_line("small") as line:
        line.begin(1000, 0)
        for prompts in range(1, 101):
            now = 7.0 * prompts
            line.show(Tally(prompts))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 700 // 63
    assert lines[0].startswith("small: 1%, 9/1000 prompts [")


def show_looks(*, hidden=False):
    """The second start of an advice, which finds 16 completions and may draw 1,000."""
    with Progress("small", "completions", hidden=hidden, most=1000) as line:
        line.write(lambda: ["first prompt: 1 2"])
        line.begin(384, 16)
        for more in (184, 368):
            line.show(Tally(more, more / 2, more / 4))
        line.say(48, 384, "best group size 4 to 12")
        line.begin(768, 384)
        line.show(Tally(192, 96.0, 48.0))


def test_looks_at_a_terminal(terminal):
    """What a look says has a line of its own, above that of what is drawn."""
    resize, read = terminal
    resize(80)
    show_looks()
    _, first, *lines, last = drawn(read())
    assert "16/1000 completions [" in first
    [before] = [line for line in lines if "200/1000 completions [" in line]
    assert before.endswith(", mean reward 0.50, 25% cut]")
    assert "48 prompts, 384 completions, 0 s: best group size 4 to 12" in lines
    assert "576/1000 completions [" in last
    assert last.endswith(", mean reward 0.50, 25% cut]")


def test_the_time_to_come_is_by_what_this_start_has_drawn(terminal, monkeypatch):
    """84 of the 184 that were missing in 10 s: 100 more take 12 s."""
    resize, read = terminal
    resize(100)
    now = 0.0
    monkeypatch.setattr(shown_progress.std, "time", lambda: now)
    with Progress("small", "completions", hidden=False) as line:
        line.begin(384, 200)
        line._bar._time = lambda: now
        now += 10 + line._bar.start_t
        line.show(Tally(84))
    assert "284/384 completions [00:10<00:11" in read()


def test_another_process_shows_nothing(capsys):
    count(run_line(hidden=True), LONGEST)
    show_looks(hidden=True)
    assert not capsys.readouterr().err
