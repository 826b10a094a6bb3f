"""Words of few completions: nothing of a finished run."""

from dataclasses import replace

import pytest

from mse_lab.mse.stopping import Stopped
from mse_lab.report.advice_report import advice_text
from mse_lab.report.sampled_report import (
    NOT_ESTIMATED,
    OF_RUNS,
    OF_SAMPLES,
    STOPPED,
    say_level,
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
    drawn = "1,960 completions of 60 prompts were drawn, 960 of them differentiated"
    assert said == f"{drawn}{STOPPED[stopped]}. {NOT_ESTIMATED}"


def test_which_kinds_of_prompts_it_speaks_of():
    """A finished run needs twice as many of a kind; at another level nothing is known."""
    sampled, finished = few(stopped="width"), replace(known_run()[2], prompts=60)
    assert say_level(sampled) == OF_SAMPLES.format(rarest=20, prompts=60)
    assert say_level(finished) == OF_RUNS.format(rarest=10)
    assert say_level(replace(finished, level=0.9)) == ""
    for advice in (sampled, finished):
        assert say_level(advice) in advice_text(advice, (), 999)
