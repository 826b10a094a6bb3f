"""Advice from few completions: what the truth is, what is known of it, and what is not."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from designs import scaled
from mse_lab.answers.advice import advise
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.errors import InputError
from mse_lab.mse.budget import Population
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import sequence_bounds
from mse_lab.report.advice_files import restore_advice
from mse_lab.report.advice_report import advice_text, headline
from mse_lab.results.files import write_json
from populations import choose, known_run, population
from truths import Truth

DEFAULT = "grpo-std(eps=0.0001, length=token-batch)"


def draw(prompts=60, completions=16, seed=0, most=None, design=None):
    rng = np.random.default_rng(seed)
    design = design or population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return Samples.of(choose(design, index).sample(rng, completions, most))


@pytest.fixture(scope="module")
def run():
    return SampledRun("few", draw(), "regret")


@pytest.fixture(scope="module")
def advice(run):
    return advise(run)


def test_most_intervals_hold_the_truth(advice):
    """Of 15 numbers at 95% at most three are missed in all but 0.5% of seeds."""
    truth = Truth(population(np.random.default_rng(1)))
    exact = {name: value.item() for name, value in truth.constants._asdict().items()}
    del exact["best_constant"]  # Not told.
    told = [(getattr(advice, name), value) for name, value in exact.items()]
    told += [
        (row.cost, truth.cost(row.group_size) / truth.cost(advice.recommended))
        for row in advice.rows
        if row.group_size != advice.recommended
    ]
    told += [
        (one.cost, truth.alternative_cost(one.estimator, one.group_size, advice))
        for one in advice.alternatives
    ]
    held = [one.low <= value <= one.high for one, value in told]
    assert len(held) >= 15
    assert held.count(False) <= 3


def test_trls_default_is_told_by_its_law(advice):
    """Up to three completions less than were drawn, and nearer to the truth than 10%."""
    [found] = [one for one in advice.alternatives if one.estimator == DEFAULT]
    truth = Truth(population(np.random.default_rng(1)))
    exact = truth.alternative_cost(DEFAULT, found.group_size, advice)
    assert found.group_size <= 13
    assert found.cost.value == pytest.approx(exact, rel=0.1)


def test_what_is_told_of_the_regret_holds_at_all_looks(run, advice):
    bounds = sequence_bounds(Population(run.samples), 0.95)
    assert advice.regret == bounds[advice.recommended]
    assert advice.recommended == min(
        size for size in (2, 4, 8, 16, 32, 64, 128, 256) if bounds[size] <= 0.05
    )


def test_what_few_completions_do_not_tell_is_left_out(advice):
    names = {one.estimator for one in advice.alternatives}
    assert names == {"grpo", "vanilla", "batch-mean", DEFAULT}
    assert advice.best_constant.value > 0
    assert math.isnan(advice.best_constant.high)
    assert advice.law_only
    zero = {row.group_size: row.zero_variance for row in advice.rows}
    assert zero[16] is not None
    assert zero[32] is None
    assert (
        "mse-lab run also measures them, and estimators that use norms or"
        in advice_text(advice, 999)
    )


def test_counts_and_the_reason_are_in_the_data(advice, tmp_path):
    found = advice.as_dict()
    assert (found["completions"], found["differentiated"]) == (960, 960)
    assert found["stopped"] == "regret"
    write_json(tmp_path / "advice.json", json.loads(json.dumps(found)))
    assert restore_advice(tmp_path / "advice.json").stopped == "regret"


def test_a_finished_run_has_none_of_them():
    _, _, advice = known_run()
    assert advice.completions is advice.differentiated is advice.stopped is None
    assert not {"completions", "differentiated", "stopped"} & {*advice.as_dict()}
    assert "were drawn" not in advice_text(advice)


@pytest.mark.parametrize(
    ("stopped", "words"),
    [
        ("regret", "960 completions of 60 prompts were drawn, 960 of them differentiated: "
         "enough for a verdict. Errors"),
        ("width", "G* is known, and there are no more prompts, which could tell. Errors"),
        ("budget", ", and the budget is spent; a larger one narrows the answer. Errors"),
        ("exhausted", "no more prompts; further ones narrow the answer. Errors"),
    ],
)  # fmt: skip
def test_the_screen_says_how_few_there_were_and_why(advice, stopped, words):
    text = advice_text(replace(advice, stopped=stopped), 999)
    assert text.startswith(headline(advice))
    assert words in text


def test_some_differentiated_completions_will_do():
    samples = draw(most=(4, 4))
    found = advise(SampledRun("fewer", samples, "budget"))
    assert found.completions == 960
    assert found.differentiated == samples.differentiated < 500
    assert found.recommended == 4


def test_graded_rewards_have_no_laws_of_their_own():
    design = population(np.random.default_rng(1))
    graded = replace(design, reward_PC=2 * design.reward_PC - 1)
    found = advise(SampledRun("graded", draw(design=graded), "budget"))
    assert len(found.alternatives) == 3
    assert not found.own_loss
    assert math.isnan(found.regime.line)
    binary = advise(SampledRun("binary", draw(), "budget"))
    assert found.best.value == pytest.approx(binary.best.value)


def test_rho_is_of_the_completions_that_were_differentiated():
    """The median over prompts: mean norms of right and of wrong ones, by hand."""
    samples = draw(most=(4, 4))
    ratios = []
    for [one] in samples.blocks:
        norms2, right = np.diag(one.gram_KK), one.rewards_N[one.scored_K] == 1
        if right.any() and not right.all():
            ratios.append(norms2[right].mean() / norms2[~right].mean())
    regime = SampledRun("fewer", samples, "budget").regime
    assert regime.median_rho == pytest.approx(np.median(ratios))
    assert regime.prompts_with_rho == len(ratios)


def test_it_warns_of_its_completions_and_where_few_prompts_carry_the_answer():
    """One of 60 with scores 30 times as large carries it alone."""
    design = population(np.random.default_rng(1))
    heavy = np.where(np.arange(design.prompts) == 5, 30.0, 1.0)
    rng = np.random.default_rng(0)
    index = np.arange(60)
    alone = Samples.of(choose(scaled(design, heavy), index).sample(rng, 16))
    told = SampledRun("few", alone, "budget", told=("All were cut.",)).warnings
    assert told[0] == "All were cut."
    assert told[1].startswith("some 1 of 60 prompts carry what decides the group size")
    even = SampledRun("few", draw(), "budget", told=("All were cut.",))
    assert advise(even).warnings == ("All were cut.",)


def test_equal_rewards_are_refused():
    design = population(np.random.default_rng(1))
    silent = replace(design, reward_PC=np.ones_like(design.reward_PC))
    with pytest.raises(InputError, match="all equal: nothing to advise on"):
        advise(SampledRun("silent", draw(design=silent), "budget"))
