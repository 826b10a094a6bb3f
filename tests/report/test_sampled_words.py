"""Words of few completions: nothing of a finished run."""

from dataclasses import replace

import pytest

from mse_lab.mse.stopping import Stopped
from mse_lab.report.sampled_words import MEASURED, STOPPED, UNTOLD, say_stopped
from populations import known_run


def few(**changes):
    _, _, advice = known_run()
    counts = {"completions": 1960, "differentiated": 960, "prompts": 60}
    return replace(advice, **counts, **changes)


def test_of_a_finished_run_nothing_is_said():
    assert say_stopped(known_run()[2]) == ""


@pytest.mark.parametrize("stopped", Stopped.__args__)
def test_why_it_ended_and_what_is_not_told(stopped):
    said = say_stopped(few(stopped=stopped))
    drawn = "1,960 completions of 60 prompts were drawn, 960 of them differentiated"
    assert said == f"{drawn}{STOPPED[stopped]}. {UNTOLD} {MEASURED}"


@pytest.mark.parametrize(("stopped", "there"), [("budget", True), ("regret", False)])
def test_what_more_would_take_is_said_where_it_was_not_reached(stopped, there):
    assert ("Some 5,000" in say_stopped(few(stopped=stopped, wanted=5000))) == there
