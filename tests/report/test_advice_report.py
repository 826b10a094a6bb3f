"""The advice in words: the screen, the page, the last lines of a run, what is felt."""

import math
import re
from dataclasses import replace

import pytest

from exact_forms import felt_of
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.regime import Regime
from mse_lab.report.advice_report import (
    advice_text,
    answer,
    felt_sentences,
    felt_table,
    headline,
    say_prompts,
)


def plain(text):
    """Undo the breaks between lines."""
    return " ".join(text.split())


def test_a_failed_check_leaves_no_advice(known):
    found = replace(known[2], held=False, warnings=("raise pool.replicate",))
    text = advice_text(found)
    assert text.splitlines() == [
        "No advice: a built-in check of this run FAILED; checks.json says which.",
        "warning: raise pool.replicate",
    ]


def test_no_upper_bound(known):
    best = Estimate(math.inf, 20.0, math.inf)
    found = replace(known[2], best=best)
    text = plain(advice_text(found))
    words = "G* = at least 20.0 (more than these 60 prompts would bound it); MSE"
    assert words in text
    assert not re.search(r"\binf\b", text)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((5, 4, 9), "beats vanilla (no baseline) from G = 5 on (4 to 9)."),
        ((5, 4, math.inf), "beats vanilla (no baseline) from G = 5 on (4 to never)."),
        ((math.inf, 4, math.inf), "at no G; the interval is from 4 on, to never."),
        (
            (math.inf,) * 3,
            "Over all prompts together GRPO-type never beats vanilla (no baseline).",
        ),
    ],
)
def test_where_grpo_beats_vanilla(known, sizes, words):
    text = plain(advice_text(replace(known[2], beats_vanilla_from=Estimate(*sizes))))
    assert words in text
    assert not re.search(r"\binf\b", text)


def test_an_unmeasurable_gradient_has_bounds_only(known):
    unknown = Estimate(math.inf, 40.0, math.inf)
    assert "different from zero" not in advice_text(known[2])
    text = advice_text(replace(known[2], noise_scale=unknown, relative_error=unknown))
    assert "||g||^2 over random prompts is not significantly different from zero" in plain(
        text
    )
    assert text.count("at least 40") == 1
    assert not re.search(r"\binf\b", text)


def test_the_screen(known):
    """At most 24 lines of 80 columns; warnings first, then the verdict, and whole."""
    assert len(advice_text(known[2]).splitlines()) <= 24
    remedy = f"94.7% were cut: {'raise it ' * 30}".strip()
    found = replace(known[2], warnings=(remedy, "another"))
    text = advice_text(found)
    verdict = plain(headline(known[2]))
    assert plain(text).startswith(f"warning: {remedy} warning: another {verdict} Judged:")
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, advice_text(found, width=100).splitlines())) <= 100
    assert plain(advice_text(found, width=100)) == plain(text)


def test_least_error_is_not_best_training(known):
    text = plain(advice_text(known[2]))
    assert "This minimises gradient error. Where the reward ignores the wording" in text


@pytest.mark.parametrize(
    ("optimizer", "metric", "size"),
    [("adamw", "adam", 2), ("adamw", "curvature", 8), ("sgd", "curvature", 2)],
)
def test_what_the_optimiser_feels_is_what_to_set(known, optimizer, metric, size):
    felt = felt_of(metric=metric, recommended=2, plain=8)
    advice = replace(
        known[2], verdict="keep", set_to=8, at_most=0.03, felt=felt, optimizer=optimizer
    )
    assert advice.num_generations == size
    text = plain(advice_text(advice))
    assert (f"Set num_generations to {size}, by what training" in text) == (size == 2)
    assert "Keep num_generations = 8: " in text
    assert ("By the gradient's error alone: Keep" in text) == (size == 2)
    assert ("prefer a smaller G" in text) == (size == 8)


@pytest.mark.parametrize(
    "changes", [{"recommended": None}, {"best": Estimate(3.0, 1.0, math.inf)}]
)
def test_a_felt_size_that_is_not_known_decides_nothing(known, changes):
    felt = felt_of(**{"metric": "adam", "recommended": 2, **changes})
    advice = replace(known[2], set_to=8, felt=felt)
    assert advice.num_generations == 8
    assert "a metric was measured, but its best size is unknown" in plain(
        advice_text(advice)
    )


@pytest.mark.parametrize(
    ("side", "words"),
    [
        (
            "above",
            "above (1-V)/(2-V) = 0.400: a baseline near V reduces the error. GRPO-type",
        ),
        (
            "below",
            "below (1-V)/(2-V) = 0.400: a baseline near V increases the error. GRPO-type",
        ),
        (
            "undecided",
            "is 0.30 (0.20 to 0.50), not significantly different from (1-V)/(2-V) = 0.400",
        ),
    ],
)
def test_the_regime(known, side, words):
    rho, best = Estimate(0.3, 0.2, 0.5), Estimate(0.4, 0.35, 0.45)
    one = Regime(side, True, 1.0, best, rho, 0.4, 0.25, 58, 12, 60)
    text = plain(advice_text(replace(known[2], regime=one)))
    assert words in text
    assert say_prompts(replace(known[2], regime=one)) == (
        "Taken singly, GRPO-type's baseline seems to pay on 12 of 60 prompts; "
        "median rho 0.250."
    )
    graded = one._replace(binary=False, rho=UNKNOWN, line=math.nan, median_rho=math.nan)
    text = plain(advice_text(replace(known[2], regime=graded)))
    assert "The best constant baseline is 0.40 (0.35 to 0.45), " in text
    assert "V/2 = 0.5" in text
    assert "rho" not in text
    nowhere = graded._replace(best_baseline=UNKNOWN)
    assert "V/2" not in advice_text(replace(known[2], regime=nowhere))


def test_the_last_lines_of_a_run(known):
    lines = list(answer(known[2]))
    assert len(lines) <= 8
    assert lines[0] == headline(known[2])
    assert lines[1].startswith("Judged: TRL's defaults")
    failed = replace(known[2], held=False)
    assert list(answer(failed)) == [headline(failed)]


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
