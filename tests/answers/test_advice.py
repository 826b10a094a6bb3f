"""Advice against populations of prompts whose constants are known.

A run's prompts are drawn from a population of 4000, whose own means are the truth. Checks
of a single number ask for four standard errors, read off its interval's width: false alarm
about 1e-4 each, a little more for skewed figures. All seeds are fixed.
"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers.advice import make_advice, restore_advice
from mse_lab.answers.advice_evidence import ask, evidence_of_samples
from mse_lab.config.training import DEFAULT, read_training
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.rule import rule_by_looks
from mse_lab.mse.samples import Samples
from mse_lab.report.advice_report import advice_text
from mse_lab.results.files import write_file
from simulated import (
    PROBE,
    advise_on,
    choose,
    evidence_of,
    evidence_of_pools,
    make_design,
    population,
    sample,
    with_rewards,
)
from truths import Truth

LEVEL = 0.95
# A trainer that takes no baseline, so that the verdict is about sizes.
SIZES_OF_64 = read_training({"G": 64, "estimator": "grpo"})


def standard_errors(estimate, truth):
    return abs(estimate.value - truth) / ((estimate.high - estimate.low) / (2 * 1.96))


def test_a_saving_in_steps_is_smaller_than_in_completions(known):
    """Of 64 in use: both are the truth's, and the size set costs no more than the best."""
    design, pools, _ = known
    setting = SIZES_OF_64
    found = make_advice(evidence_of_pools(pools, setting, 256))
    truth = Truth(design)
    gradient2, size = truth.constants.gradient2.item(), found.set_to
    at, to = (truth.cost(one) for one in (64, size))
    assert to <= 1.05 * min(map(truth.cost, range(2, 257)))
    assert standard_errors(found.saves, 1 - to / at) < 4
    steps = 1 - (256 * gradient2 + to) / (256 * gradient2 + at)
    assert standard_errors(found.steps_saved, steps) < 4
    assert 0 < found.steps_saved.value < found.saves.value
    assert found.saves.low < found.saves.value < found.saves.high < 1
    assert make_advice(evidence_of_pools(pools, setting)).steps_saved is None


def test_kept_as_data_and_read_again(known, tmp_path):
    """To five digits; infinite ends too; what is damaged is refused."""
    found, path = known[2], tmp_path / "advice.json"
    best = Estimate(4.0, 3.0, math.inf)
    for one in (found, replace(found, best=best)):
        write_file(path, one.as_dict())
        assert one.as_dict()["num_generations"] == one.set_to  # TRL's name of it.
        again = restore_advice(path)
        assert again.as_dict() == one.as_dict()
        assert again.best == pytest.approx(one.best, rel=1e-4)
        assert again.num_generations == one.set_to
    sizes = {found.setting.group_size, found.set_row.group_size}
    assert found.set_row.row == "trainer"
    assert {one.group_size for one in found.progress} == sizes
    path.write_text(path.read_text().replace('"set_to"', '"set_too"'))
    with pytest.raises(InputError, match=r"advice\.json: damaged \(.*set_to"):
        restore_advice(path)


def test_shares_of_groups_that_the_pools_are_too_small_for_are_not_said(known):
    short = sample(known[0], np.random.default_rng(0), reference=64, blocks=2, largest=16)
    setting = read_training({"num_generations": 128})
    few = make_advice(evidence_of_pools(short, setting))
    assert few.zero_variance is None


def test_an_unmeasurable_gradient_has_bounds_only():
    """Gradients without a common part: no relative error is claimed."""
    rng = np.random.default_rng(6)
    found = advise_on(sample(population(rng, shared=0.0), rng))
    assert math.isinf(found.noise_scale.high)
    assert found.progress_at(64).low == 0


@pytest.mark.parametrize(
    ("prompts", "varied", "line"),
    [
        (3, 0, "nothing to advise on"),
        (6, 1, "differ within 1 of 6 prompts: nothing"),
        (2, 2, "2 prompts: advice needs three or more"),
    ],
)
def test_no_advice(prompts, varied, line):
    rng = np.random.default_rng(9)
    design = make_design(rng, prompts)
    rewards_PC = np.where(np.arange(prompts)[:, None] < varied, design.reward_PC, 1.0)
    with pytest.raises(InputError, match=line):
        advise_on(replace(design, reward_PC=rewards_PC).draw(rng, 64, 2, 8))


@pytest.mark.parametrize(
    ("rewards", "completions", "of_loss"),
    [((0, 1), 16, True), ((-1, 1), 16, True), ((0, 1), 8, False)],
    ids=["binary", "two values", "too few"],
)
def test_samples_and_their_law(rewards, completions, of_loss):
    """TRL's loss at 8 is known from 11 completions of rewards of two values on."""
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    low, high = rewards
    design = replace(design, reward_PC=low + (high - low) * design.reward_PC)
    drawn = design.some(rng, 200).sample(rng, completions)
    about = PROBE, Samples.of(drawn), DEFAULT, ask(DEFAULT, LEVEL), "regret", 200
    found = make_advice(evidence_of_samples("few", *about, warnings=["slow"]))
    assert found.warnings[0] == "slow"
    assert found.of_loss == of_loss
    assert found.held is True
    assert (found.completions, found.stopped) == (200 * completions, "regret")
    assert math.isnan(found.best_constant.low)
    assert found.ladder[0].estimator == (DEFAULT.estimator if of_loss else "grpo")


def test_a_finished_run_is_looked_at_once_and_samples_again_and_again(known):
    some = choose(known[0], np.arange(100))
    drawn = Samples.of(some.sample(np.random.default_rng(0), 16))
    for one, looked in ((evidence_of_pools(known[1]), False), (evidence_of(drawn), True)):
        right, wrong = (
            rule_by_looks(one.table, one.question, looked=how).at_most
            for how in (looked, not looked)
        )
        assert one.ruling.at_most == right != wrong


def test_a_set_of_prompts_is_spoken_of_alone(known):
    setting = SIZES_OF_64
    these = evidence_of_pools(known[1], setting, population="these")
    assert make_advice(these).population == 60
    assert make_advice(evidence_of_pools(known[1], setting)).population is None


VERL = "actor_rollout_ref.actor.ppo_mini_batch_size"


@pytest.mark.parametrize("batch", [64, 67])
def test_a_single_completion_of_a_prompt_is_judged(known, batch):
    used = {"trainer": "verl", "n": 1, "adv_estimator": "rloo", "use_dynamic_bsz": True}
    used |= {VERL: batch, "data.train_batch_size": batch}
    used |= {"loss_agg_mode": "seq-mean-token-sum"}
    pools = with_rewards(known[1], lambda one: one + 3)
    found = make_advice(evidence_of_pools(pools, read_training(used)))
    assert found.setting.group_size == 1


def test_another_objective_gets_no_size(known):
    found = make_advice(evidence_of_pools(known[1], read_training({"loss_type": "vespo"})))
    assert (found.verdict, found.set_to, found.saves) == ("cannot tell", 8, None)
    assert (found.at_least, found.at_most) == (0, math.inf)
    assert advice_text(found).startswith(
        "Cannot tell whether num_generations = 8 is all right: loss_type = vespo climbs"
    )


@pytest.mark.parametrize(
    ("used", "size", "changed"),
    [
        ({"trainer": "verl", "rollout.n": 32, VERL: 8, "data.train_batch_size": 16},
         "rollout.n", [64, 128]),
        ({"num_generations": 16, "per_device_train_batch_size": 16},
         "num_generations", []),
    ],
    ids=lambda one: one.get("trainer", "trl") if isinstance(one, dict) else "",
)  # fmt: skip
def test_what_is_typed_with_a_size_keeps_the_completions_of_a_step(
    known, used, size, changed
):
    """Of trainers whose batch counts prompts; at every size that the answer names."""
    setting = read_training(used)
    found = make_advice(evidence_of_pools(known[1], setting))
    assert (found.verdict, found.ladder[1].group_size) == ("change", 4)
    text = advice_text(found).replace("\n", " ")
    assert bool(found.batches) == bool(changed)
    for group, line in found.batches.items():
        typed = dict(re.findall(r"(?:--)?([\w.]+)[= ](\d+)", line))
        again = read_training(used | {size: group} | typed)
        assert again.completions_per_step == setting.completions_per_step
        assert group != found.set_to or line in text
    assert [
        int(value) for value in re.findall(r"[= ](\d+)", found.batches.get(4, ""))
    ] == sorted(changed, reverse=True)
