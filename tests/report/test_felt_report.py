"""What training feels, in words."""

import math

import pytest

from exact_forms import felt_of
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report.felt_report import felt_sentences, felt_table

PLAIN = Estimate(4.5, 4.0, 5.0)


def test_both_sizes_stand_side_by_side():
    lines = felt_table(felt_of(), PLAIN, 0.95).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines[-3:]] == [
        "4.5 (4.0 to 5.0)",
        "3.0 (2.5 to 3.6)",
        "3.40 (3.00 to 4.00)",
    ]
    assert "these 60, trained on" in lines[-1]


def test_adam_has_a_step_of_its_own():
    words = felt_table(felt_of(metric="optimizer"), PLAIN, 0.95)
    assert "error of Adam's step" in words
    assert "5.5 (5.0 to 6.0)" in words


@pytest.mark.parametrize(
    ("best", "said"),
    [
        (UNKNOWN, "noise is estimated to help at every size"),
        (Estimate(3.0, 1.0, math.inf), "these prompts are too few"),
        (Estimate(3.0, 2.0, math.inf), "3 (2 or more)"),
    ],
)
def test_an_end_that_is_not_known_is_not_shown_as_a_number(best, said):
    assert said in felt_table(felt_of(best=best), PLAIN, 0.95)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "takes 1.40 times (1.20 to 1.60) the completions"),
        ({"recommended": 4}, "is as good by what is felt"),
        ({"recommended": None}, "gives no best size"),
        ({"cost_of_plain": UNKNOWN}, "by how much is open"),
        ({}, "30 times as much as another"),
        ({"metric": "adam"}, "Adam (second moments of these gradients)"),
        ({}, "10% of the noise helps instead"),
    ],
)
def test_it_says_what_it_costs_and_how_sure_that_is(changes, said):
    words = " ".join(felt_sentences(felt_of(**changes)))
    assert said in words
    assert "an end covered it, 90 to 97% the ratio" in words


def test_an_unknown_share_of_its_own_is_left_out():
    assert "as another" not in " ".join(felt_sentences(felt_of(own=math.nan)))
