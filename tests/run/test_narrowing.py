"""An advice under way: a line that changes at a terminal, a line a look elsewhere."""

import pytest

from mse_lab.measurement.rounds import Look
from mse_lab.run import narrowing as shown
from mse_lab.run.narrowing import narrowing


@pytest.fixture
def screen(capsys):
    """What is read off the screen."""
    return lambda: capsys.readouterr().err


def show():
    with narrowing("small", hidden=False) as line:
        line.show(100)
        line.say(Look(24, 16), "best group size 4 to 12")
        line.show(500)
        line.say(Look(36, 64), "best group size 4 to 8")


def test_a_line_a_look_where_there_is_no_terminal(screen, monkeypatch):
    monkeypatch.setattr(shown, "columns", lambda: 0)
    show()
    assert screen().splitlines() == [
        "24 prompts, 384 completions, 0 s: best group size 4 to 12",
        "36 prompts, 2,304 completions, 0 s: best group size 4 to 8",
    ]


def test_one_line_at_a_terminal(screen, monkeypatch):
    monkeypatch.setattr(shown, "columns", lambda: 80)
    show()
    drawn = [line.rstrip() for line in screen().split("\r") if line.strip()]
    assert "small: 100 completions [00:00]" in drawn
    assert "small: 500 completions [00:00, 24 prompts: best group size 4 to 12]" in drawn
    assert (
        drawn[-1] == "small: 2304 completions [00:00, 36 prompts: best group size 4 to 8]"
    )
    assert max(map(len, drawn)) < 80


def test_nothing_where_it_is_hidden(screen):
    with narrowing("small", hidden=True) as line:
        line.show(1)
        line.say(Look(24, 16), "best group size 4")
    assert not screen()
