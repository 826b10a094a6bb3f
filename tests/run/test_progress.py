"""Progress: one line that fits the terminal, or a few where there is none."""

import fcntl
import os
import pty
import struct
import sys
import termios
from contextlib import suppress

import pytest

from mse_lab.measurement.looks import Look
from mse_lab.run import progress as shown_progress
from mse_lab.run.progress import Tally, advice_progress, progress

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


@pytest.mark.parametrize("columns", [200, 80, 60, 40, 0])
def test_the_line_fits_the_terminal(columns, terminal):
    """A terminal that does not know its columns counts as one of 80."""
    resize, read = terminal
    resize(columns)
    with progress("tiny/base", 60, 2, hidden=False) as show:
        show(LONGEST)
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
    with progress("tiny/base", 60, 2, hidden=False) as show:
        show(LONGEST)
        resize(30)
        show(LONGEST)
    *_, wide, narrow, _ = drawn(read())
    assert len(wide) > 60
    assert len(narrow) < 30


def test_without_a_terminal_lines_are_few(capsys):
    with progress("small", 100, 20, hidden=False) as show:
        for prompts in range(1, 81):
            show(Tally(prompts, 0.5 * prompts, 0.25 * prompts))
        show(Tally(80, 40.0, 20.0))
    lines = capsys.readouterr().err.splitlines()
    starts = [f"small: {n}%, {n}/100 prompts [" for n in (25, 50, 75, 100)]
    assert [line.startswith(one) for line, one in zip(lines, starts, strict=True)] == [
        True
    ] * 4
    assert lines[-1].endswith(", mean reward 0.50, 25% cut]")
    assert all(line.isprintable() for line in lines)


def test_without_a_terminal_a_long_run_tells_every_minute(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(shown_progress.time, "monotonic", lambda: now)
    with progress("small", 1000, 0, hidden=False) as show:
        for prompts in range(1, 101):
            now = 7.0 * prompts
            show(Tally(prompts))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 700 // 63
    assert lines[0].startswith("small: 1%, 9/1000 prompts [")


def test_another_process_shows_nothing(capsys):
    with progress("small", 5, 2, hidden=True) as show:
        show(Tally(1, 0.5, 0.25))
    assert not capsys.readouterr().err


@pytest.fixture
def screen(capsys):
    """What is read off the screen."""
    return lambda: capsys.readouterr().err


def show_looks():
    with advice_progress("small", hidden=False) as line:
        line.show(100)
        line.say(Look(24, 16), "best group size 4 to 12")
        line.show(500)
        line.say(Look(36, 64), "best group size 4 to 8")


def test_a_line_a_look_where_there_is_no_terminal(screen, monkeypatch):
    monkeypatch.setattr(shown_progress, "columns", lambda: 0)
    show_looks()
    assert screen().splitlines() == [
        "24 prompts, 384 completions, 0 s: best group size 4 to 12",
        "36 prompts, 2,304 completions, 0 s: best group size 4 to 8",
    ]


def test_one_line_at_a_terminal(screen, monkeypatch):
    monkeypatch.setattr(shown_progress, "columns", lambda: 80)
    show_looks()
    said = [line.rstrip() for line in screen().split("\r") if line.strip()]
    assert "small: 100 completions [00:00]" in said
    assert "small: 500 completions [00:00, 24 prompts: best group size 4 to 12]" in said
    assert said[-1] == "small: 2304 completions [00:00, 36 prompts: best group size 4 to 8]"
    assert max(map(len, said)) < 80


def test_another_process_shows_no_looks(screen):
    with advice_progress("small", hidden=True) as line:
        line.show(1)
        line.say(Look(24, 16), "best group size 4")
    assert not screen()
