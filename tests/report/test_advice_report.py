"""The advice in words: the screen, the page, the last lines of a run."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers.advice import advise
from mse_lab.answers.alternatives import Alternative, Single
from mse_lab.answers.run_regime import Regime
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report.advice_report import (
    advice_page,
    advice_text,
    answer,
    best_usable,
    headline,
)
from populations import advise_on, population, sample
from simulated import analysed


def plain(text):
    """Undo the breaks between lines."""
    return " ".join(text.split())


def test_sizes_above_the_pools_have_no_share_of_equal_rewards():
    rng = np.random.default_rng(0)
    short = sample(population(rng), rng, reference=64, blocks=2, largest=16)
    assert "pools too small" in advice_page(advise_on(short))


@pytest.mark.parametrize(
    ("near_best", "recommended", "words"),
    [
        (
            (3, 7),
            4,
            "Set num_generations to 4; between 3 and 7 it costs at most 5% more "
            "completions than the best.",
        ),
        ((2, 2), 2, "Set num_generations to 2; any other size costs over 5% more."),
    ],
)
def test_the_headline_says_what_to_do(known, near_best, recommended, words):
    found = replace(known[2], near_best=near_best, recommended=recommended)
    assert headline(found) == words
    assert "No advice: a built-in check" in headline(replace(found, held=False))


def test_how_sure_the_range_is(known):
    """Said where the interval of G* reaches beyond it."""
    inside = replace(known[2], near_best=(3, 7), best=Estimate(4.5, 2.1, 7.8))
    assert "may be anything" not in advice_text(inside)
    wide = replace(inside, best=Estimate(4.5, 2.1, 8.2))
    assert "the best size may be anything from 2.1 to 8.2." in plain(advice_text(wide))


def test_no_upper_bound(known):
    best = Estimate(math.inf, 20.0, math.inf)
    found = replace(known[2], best=best)
    text = plain(advice_text(found))
    assert "larger groups save at most 5% of the completions" in text
    assert "The best size is at least 20.0, with no upper bound on this evidence" in text
    assert f"num_generations={found.recommended}" in text
    assert "| at least 20 |" in advice_page(found)
    assert not re.search(r"\binf\b", text)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((5, 4, 9), "beats vanilla (no baseline) from G = 5 on (4 to 9)."),
        ((5, 4, math.inf), "beats vanilla (no baseline) from G = 5 on (4 to never)."),
        ((math.inf, 4, math.inf), "at no G; the interval is from 4 on, to never."),
        ((math.inf,) * 3, "GRPO-type never beats vanilla (no baseline)."),
    ],
)
def test_where_grpo_beats_vanilla(known, sizes, words):
    text = plain(advice_page(replace(known[2], beats_vanilla_from=Estimate(*sizes))))
    assert words in text
    assert not re.search(r"\binf\b", text)


def test_an_unmeasurable_gradient_has_bounds_only(known):
    unknown = Estimate(math.inf, 40.0, math.inf)
    assert "not told from zero" not in advice_text(known[2])
    text = advice_page(replace(known[2], noise_scale=unknown, relative_error=unknown))
    assert "warning: ||g||^2 over random prompts is not told from zero" in text
    assert text.count("at least 40") == 2
    assert not re.search(r"\binf\b", text)


def test_the_screen(known):
    """With the files' names 29 lines of 80 columns; warnings first, cut at two lines."""
    assert len(advice_text(known[2]).splitlines()) <= 27
    found = replace(known[2], warnings=(f"94.7% were cut: {'raise it ' * 30}", "another"))
    lines = advice_text(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("warning: 94.7% were cut")
    assert lines[2] == "warning: another"
    assert lines[3].startswith(f"Set num_generations to {found.recommended}")
    shown = [int(line.split(" = ")[1].split()[0]) for line in lines if "mean, G" in line]
    assert shown == sorted({8, 16, 32} - {found.recommended})
    some = advice_text(advise(analysed(known[1], [4]), [3]), [3])
    assert some.count("the group's mean, G = 3 ") == some.count("the group's mean, G = ")


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        ("TRL", 'GRPOConfig(num_generations=4, scale_rewards="none", loss_type="dr_grpo"'),
        ("verl", "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum"),
        ("OpenRLHF", "--rollout.n_samples_per_prompt 4 --algo.advantage.estimator rloo"),
    ],
)
def test_settings_are_those_of_what_was_measured(known, trainer, words):
    text = plain(advice_text(replace(known[2], recommended=4)))
    assert f"{trainer} " in text
    assert words in text


def test_what_beats_the_group_s_mean(known):
    """Said where the whole interval is below one, of what training could use."""
    found = known[2]
    bound = Alternative("best-constant", 1, Estimate(0.2, 0.1, 0.3))
    vanilla = Alternative("vanilla", 1, Estimate(0.53, 0.4, 0.7), unbiased=True)
    open_ = Alternative("batch-mean", 1, Estimate(0.5, 0.1, 1.3))
    some = replace(found, alternatives=(bound, open_, vanilla))
    assert best_usable(some) == vanilla
    words = "Cheapest unbiased: no baseline saves 47 % (30 to 60) of the completions: verl"
    assert words in plain(advice_text(some))
    none = replace(found, alternatives=(bound, open_))
    assert best_usable(none) is None
    assert "No other usable estimator is shown to save" in advice_text(none)
    own = Alternative("mine:weights", 8, Estimate(0.4, 0.3, 0.5))
    text = plain(advice_text(replace(found, alternatives=(own,))))
    assert "mine:weights, G = 8 0.40 times (0.30 to 0.50)" in text
    assert "Cheapest, and biased: mine:weights saves 60 % (50 to 70)" in text
    assert "unbiased" not in text
    both = plain(advice_text(replace(found, alternatives=(own, vanilla))))
    assert (
        best_usable(replace(found, alternatives=(own, vanilla)), unbiased=True) == vanilla
    )
    assert both.index("and biased: mine:weights") < both.index("unbiased: no baseline")


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("above", "above (1-V)/(2-V) = 0.4: a baseline near V pays; 12 of 60 prompts"),
        ("below", "below (1-V)/(2-V) = 0.4: a baseline near V costs; 12 of 60 prompts"),
        ("undecided", "is 0.3 (0.2 to 0.5), not told from (1-V)/(2-V) = 0.4, where a"),
    ],
)
def test_the_regime(known, side, words):
    rho, best = Estimate(0.3, 0.2, 0.5), Estimate(0.4, 0.35, 0.45)
    one = Regime(side, True, 1.0, best, rho, 0.4, 0.25, 58, 12, 60)
    text = plain(advice_text(replace(known[2], regime=one)))
    assert words in text
    assert "prompts are above, median rho 0.25. GRPO-type beats vanilla" in text
    graded = one._replace(binary=False, rho=UNKNOWN, line=math.nan, median_rho=math.nan)
    text = plain(advice_text(replace(known[2], regime=graded)))
    assert "The best constant baseline is 0.4 (0.35 to 0.45), " in text
    assert "V/2 = 0.5" in text
    assert "rho" not in text
    nowhere = graded._replace(best_baseline=UNKNOWN)
    assert "V/2" not in advice_text(replace(known[2], regime=nowhere))


def test_single_prompts_are_said_to_be_that(known):
    one = Single("mine:weights", 16, Estimate(0.9, 0.8, 1.1), 57)
    found = replace(known[2], singles=(one,))
    assert "mine:weights, G = 16 0.90 times (0.80 to 1.10) *" in plain(advice_text(found))
    assert "its scale-free MSE is 0.90 times (0.80 to 1.10)" in plain(advice_page(found))


def test_the_last_lines_of_a_run(known):
    lines = list(answer(replace(known[2], recommended=4, near_best=(3, 7))))
    assert len(lines) <= 4
    assert max(map(len, lines)) <= 80
    assert lines[0] == "group size: 4; 3 to 7 cost at most 5% more than the best"
    assert lines[1].startswith("instead G = 8 takes ")
    open_ended = replace(known[2], best=Estimate(math.inf, 20.0, math.inf))
    assert "larger groups save at most 5%" in next(answer(open_ended))
    failed = replace(known[2], held=False)
    assert list(answer(failed)) == [headline(failed)]
