"""Words of few completions: nothing of a finished run."""

import math
from dataclasses import replace

import pytest

from mse_lab.mse.stopping import Stopped
from mse_lab.report.sampled_report import (
    MEASURED,
    NOT_ESTIMATED,
    STOPPED,
    say_limit,
    say_stopped,
)
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
    known = MEASURED.format(rarest=20, prompts=60)
    drawn = "1,960 completions of 60 prompts were drawn, 960 of them differentiated"
    assert said == f"{drawn}{STOPPED[stopped]}. {NOT_ESTIMATED} {known}"


@pytest.mark.parametrize(("stopped", "there"), [("budget", True), ("regret", False)])
def test_what_more_would_take_is_said_where_it_was_not_reached(stopped, there):
    assert ("Some 5,000" in say_stopped(few(stopped=stopped, wanted=5000))) == there


def test_what_more_completions_would_give_is_said_where_there_are_no_more():
    assert say_limit("budget", 0.7, 0.1).startswith("G*-1 is known within a factor of 2.")
    said = say_limit("exhausted", 0.7, 0.7)
    assert said.endswith("More prompts can narrow that, more completions of these cannot.")
    unknown = "It is not known yet what more completions of these prompts would add."
    assert say_limit("budget", 0.7, math.nan) == unknown
    assert say_limit("budget", math.inf, 0.1) == unknown
    assert not say_limit("regret", 0.7, 0.1)
