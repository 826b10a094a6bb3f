"""Progress: the bar starts where an earlier start stopped."""

from mse_lab.run.progress import Tally, progress


def test_the_bar_counts_from_what_is_done(capsys):
    with progress("small", 5, 2, 10, hidden=False) as show:
        show(Tally(1, 0.5, 0.25))
    shown = capsys.readouterr().err
    first, last = shown.split("\r")[1], shown.split("\r")[-1]
    assert "small: sampling and scoring" in last
    assert "20/50" in first
    assert "30/50" in last
    assert "prompts 3/5, mean reward 0.50, truncated 25%" in last


def test_another_process_shows_nothing(capsys):
    with progress("small", 5, 2, 10, hidden=True) as show:
        show(Tally(1, 0.5, 0.25))
    assert not capsys.readouterr().err
