"""Words of few completions: nothing of a finished run."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from mse_lab.mse.stopping import Stopped
from mse_lab.project import PROJECT
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


def test_of_a_set_of_prompts_it_speaks_of_these_alone():
    """Where all are measured no kind of prompts may be missed."""
    for stopped in ("regret", None):
        advice = few(stopped=stopped, population=60)
        assert say_level(advice).endswith("(prompts.population = these), all measured.")
        said = say_level(replace(advice, population=90))
        assert "these 90 prompts alone" in said
        assert "60 measured, if no kind of fewer than 3 prompts" in said
    assert say_level(few(stopped="regret", population=60, level=0.9)) == ""


def test_which_kinds_of_prompts_it_speaks_of():
    """A finished run needs twice as many of a kind; at another level nothing is known."""
    sampled, finished = few(stopped="width"), replace(known_run()[2], prompts=60)
    assert say_level(sampled) == OF_SAMPLES.format(rarest=20, prompts=60)
    assert say_level(finished) == OF_RUNS.format(rarest=10)
    assert say_level(replace(finished, level=0.9)) == ""
    for advice in (sampled, finished):
        assert say_level(advice) in advice_text(advice, 999)


def test_the_sentence_says_no_more_than_the_tables():
    """Of the kinds of prompts that a run knows; of cells that 80 runs or more have."""
    at_most, mean, worst = (int(percent) / 100 for percent in
                            re.findall(r"(\d+)%", OF_SAMPLES))  # fmt: skip
    table, coverage = (
        pd.read_csv(PROJECT / "results/stopping" / name)
        for name in ("table.csv", "coverage.csv")
    )
    seen = table.runs * table.kind_seen * table.bound_said_seen / 1e4
    assert (table.bound_false_seen[seen >= 80] <= 100 * (1 - at_most)).all()
    told = coverage[coverage.number != "best_constant"]
    told = told[~told.design.str.match("1 in |one of ")]
    kinds = told.groupby("kind")[["ended", "ended_held"]].sum()
    assert (kinds.ended_held / kinds.ended).min() >= mean
    cells = told[told.ended >= 80]
    assert worst <= (cells.ended_held / cells.ended).min() < worst + 0.01
