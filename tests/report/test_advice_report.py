"""The advice in words: the screen, the page, the last lines of a run."""

import math
import re
from dataclasses import replace

import pytest

from exact_forms import felt_of
from mse_lab.answers.advice import advise
from mse_lab.answers.alternatives import Alternative, Single
from mse_lab.answers.run_regime import Regime
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report.advice_report import (
    advice_text,
    answer,
    best_usable,
    headline,
    say_prompts,
)
from simulated import analysed


def plain(text):
    """Undo the breaks between lines."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"regret": 0.012, "near_best": (3, 7)},
            "It costs at most 2% more completions than the best group size; any size from "
            "3 to 7 at most 5% (95% confidence).",
        ),
        (
            {"regret": 0.31, "near_regret": 0.31, "near_best": (4, 4)},
            "It costs at most 31% more completions than the best group size (95% "
            "confidence).",
        ),
        (
            {"regret": 0.04, "near_best": (4, 16)},
            "It costs at most 4% more completions than the best group size; the curve is "
            "flat: any size from 4 to 16 at most 5% (95% confidence).",
        ),
        (
            {"regret": 0.07, "near_regret": 0.07, "near_best": (4, 256)},
            "; the curve is flat: any size from 4 to 256, the largest considered, at most "
            "7% (95% confidence).",
        ),
        (
            {"regret": 0.2, "near_regret": 0.2, "near_best": (4, 16)},
            "best group size; any size from 4 to 16 at most 20% (95% confidence).",
        ),
        (
            {"regret": math.inf, "near_regret": math.inf, "near_best": (2, 256)},
            "; but 60 prompts are too few to tell whether it costs less than twice the "
            "completions of the best group size (95% confidence).",
        ),
    ],
)
def test_the_headline_says_what_to_do(known, changes, words):
    found = replace(known[2], **{"recommended": 4, "near_regret": 0.05, **changes})
    assert headline(found).startswith("Set num_generations to 4")
    assert headline(found).endswith(words)
    assert plain(headline(found)) in plain(advice_text(found))


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
    assert f"num_generations={found.recommended}" in text
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
    """With the files' names 32 lines of 80 columns; warnings first, and whole."""
    assert len(advice_text(known[2]).splitlines()) <= 30
    remedy = f"94.7% were cut: {'raise it ' * 30}".strip()
    found = replace(known[2], warnings=(remedy, "another"))
    text = advice_text(found)
    assert plain(text).startswith(f"warning: {remedy} warning: another Set num_generations")
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, advice_text(found, width=100).splitlines())) <= 100
    assert plain(advice_text(found, width=100)) == plain(text)
    rows = [line for line in text.splitlines() if line.startswith("  GRPO-type (RLOO), G")]
    shown = [int(line.split(" = ")[1].split()[0]) for line in rows]
    assert shown == sorted({8, 16, 32} - {found.recommended})
    assert ["TRL's default G" in line for line in rows] == [size == 8 for size in shown]
    some = advice_text(advise(analysed(known[1], [4]), [3]), [3])
    assert some.count("(RLOO), G = 3 ") == some.count("(RLOO), G = ")


def test_least_error_is_not_best_training(known):
    text = plain(advice_text(known[2]))
    assert "This minimises gradient error. Where the reward ignores the wording" in text


@pytest.mark.parametrize(
    ("optimizer", "metric", "size"),
    [("adamw", "adam", 2), ("adamw", "curvature", 8), ("sgd", "curvature", 2)],
)
def test_what_the_optimiser_feels_is_what_to_set(known, optimizer, metric, size):
    felt = felt_of(metric=metric, recommended=2, plain=8)
    advice = replace(known[2], recommended=8, felt=felt, optimizer=optimizer)
    assert advice.num_generations == size
    text = plain(advice_text(advice))
    assert text.count(f"Set num_generations to {size}") == 1
    assert f"GRPOConfig(num_generations={size}," in text
    assert ("it would be 8: it costs at most" in text) == (size == 2)
    assert ("prefer a smaller G" in text) == (size == 8)


@pytest.mark.parametrize(
    "changes", [{"recommended": None}, {"best": Estimate(3.0, 1.0, math.inf)}]
)
def test_a_felt_size_that_is_not_known_decides_nothing(known, changes):
    felt = felt_of(**{"metric": "adam", "recommended": 2, **changes})
    advice = replace(known[2], recommended=8, felt=felt)
    assert advice.num_generations == 8
    assert "a metric was measured, but its best size is unknown" in plain(
        advice_text(advice)
    )


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


def test_what_needs_fewer_completions(known):
    """Said where the whole interval is below one, of what training could use."""
    found = known[2]
    bound = Alternative("best-constant", 1, Estimate(0.2, 0.1, 0.3))
    vanilla = Alternative("vanilla", 1, Estimate(0.53, 0.4, 0.7), unbiased=True)
    open_ = Alternative("batch-mean", 1, Estimate(0.5, 0.1, 1.3))
    some = replace(found, alternatives=(bound, open_, vanilla))
    assert best_usable(some) == vanilla
    words = (
        "Another estimator needs fewer: vanilla (no baseline) at G = 1 takes 0.53 times "
        "(0.40 to 0.70) the completions (verl: actor_rollout_ref.rollout.n=1"
    )
    assert words in plain(advice_text(some))
    none = replace(found, alternatives=(bound, open_))
    assert best_usable(none) is None
    assert "No other estimator that training could use is shown" in advice_text(none)
    own = Alternative("mine:weights", 8, Estimate(0.4, 0.3, 0.5))
    text = plain(advice_text(replace(found, alternatives=(own,))))
    assert "mine:weights, G = 8 0.40 times (0.30 to 0.50)" in text
    assert "which is biased, needs fewer: mine:weights at G = 8 takes 0.40 times" in text
    assert "unbiased" not in text
    both = replace(found, alternatives=(own, vanilla))
    assert best_usable(both, unbiased=True) == vanilla
    assert "One that is unbiased: vanilla (no baseline)" in plain(advice_text(both))


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
        "Taken singly, GRPO-type's baseline pays on 12 of 60 prompts; median rho 0.250."
    )
    graded = one._replace(binary=False, rho=UNKNOWN, line=math.nan, median_rho=math.nan)
    text = plain(advice_text(replace(known[2], regime=graded)))
    assert "The best constant baseline is 0.40 (0.35 to 0.45), " in text
    assert "V/2 = 0.5" in text
    assert "rho" not in text
    nowhere = graded._replace(best_baseline=UNKNOWN)
    assert "V/2" not in advice_text(replace(known[2], regime=nowhere))


def test_single_prompts_are_said_to_be_that(known):
    one = Single("mine:weights", 16, 0.9, 57)
    found = replace(known[2], singles=(one,))
    assert "mine:weights, G = 16 0.900 times *" in plain(advice_text(found))


def test_the_last_lines_of_a_run(known):
    found = replace(known[2], recommended=4, near_best=(3, 7))
    lines = list(answer(found))
    assert len(lines) <= 4
    assert lines[0] == headline(found)
    assert lines[1].startswith("instead G = 8 takes ")
    failed = replace(known[2], held=False)
    assert list(answer(failed)) == [headline(failed)]
