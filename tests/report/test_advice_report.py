"""The advice in words: the screen, the page and the last lines of a run."""

import math
import re
from dataclasses import replace

import pytest

from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.regime import Regime
from mse_lab.report.advice_report import (
    advice_text,
    answer,
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
