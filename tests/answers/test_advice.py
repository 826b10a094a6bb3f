"""Advice against populations of prompts whose constants are known.

A run's prompts are drawn from a population of 4000, whose own means are the truth. Checks
of a single number ask for four standard errors, read off its interval's width: false alarm
about 1e-4 each, a little more for skewed figures. All seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers.advice import CURVE_SIZES, advise, beats_vanilla_from
from mse_lab.errors import InputError
from mse_lab.mse.budget import Population, mse_times_budget
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.regret import SIZES
from mse_lab.mse.verdict import BUDGET
from mse_lab.report.advice_files import restore_advice
from mse_lab.results.files import write_json
from populations import (
    POPULATION,
    KnownPopulation,
    advise_on,
    brute_force,
    choose,
    exact,
    exact_best,
    exact_mse,
    population,
    sample,
)
from simulated import analysed, make_design

LEVEL = 0.95


def standard_errors(estimate, truth):
    return abs(estimate.value - truth) / ((estimate.high - estimate.low) / (2 * 1.96))


@pytest.mark.parametrize("size", [2, 4, 16])
def test_the_exact_mse_is_that_of_estimates_on_random_prompts(known, size):
    """Budget 32, 2000 estimates: within four standard errors, false alarm 6e-5 each."""
    design, rng = known[0], np.random.default_rng(size)
    repeats, batch = 2000, 32 // size
    drawn = choose(design, rng.integers(0, design.prompts, repeats * batch))
    scores, rewards = drawn._pick(rng, size)
    weights = (rewards - rewards.mean(-1, keepdims=True)) * size / (size - 1)
    gradients = np.einsum("pn,pnd->pd", weights, scores) / size
    estimates = gradients.reshape(repeats, batch, -1).mean(1)
    errors = ((estimates - design.gradient_PD.mean(0)) ** 2).sum(-1)
    standard_error = errors.std(ddof=1) / math.sqrt(repeats)
    assert abs(errors.mean() - exact_mse(design, "grpo", size, 32)) < 4 * standard_error


def test_finds_the_brute_force_optimum(known):
    design, _, found = known
    best = found.best
    assert math.floor(best.low) <= brute_force(design) <= math.ceil(best.high)
    assert standard_errors(best, exact_best(design)) < 4
    assert best.high - best.low < 2
    least = exact_mse(design, "grpo", brute_force(design))
    near = [size for size in SIZES if exact_mse(design, "grpo", size) <= 1.05 * least]
    assert found.recommended == near[0]


def test_every_number_is_within_four_standard_errors_of_the_truth(known):
    design, _, found = known
    moments, (between, gradient2) = design.moments(), exact(design)
    size, best = found.recommended, moments.best_baseline
    noise_scale = BUDGET * exact_mse(design, "grpo", size) / gradient2

    truths = {
        "c1": between,
        "c2": moments.trace_oracle.mean(),
        "c3": moments.zeta.mean(),
        "vanilla": moments.constant_baseline(0.0).mean(),
        "batch_mean": moments.constant_baseline(moments.value.mean()).mean(),
        "best_constant": moments.constant_baseline(best).mean(),
        "gradient2": gradient2,
        "relative_error": noise_scale / BUDGET,
        "noise_scale": noise_scale,
    }
    for name, truth in truths.items():
        assert standard_errors(getattr(found, name), truth) < 4, name
    for name, curve in found.curves.items():
        for group_size in SIZES:
            estimate = curve[CURVE_SIZES.index(group_size)]
            assert standard_errors(estimate, exact_mse(design, name, group_size)) < 4
    recommended = exact_mse(design, "grpo", size)
    for row in found.rows:
        exact_at = exact_mse(design, "grpo", row.group_size)
        assert standard_errors(row.mse, exact_at) < 4
        assert row.cost.low <= row.cost.value <= row.cost.high
        if row.group_size != size:
            assert standard_errors(row.cost, exact_at / recommended) < 4
    assert found.row(size).cost == pytest.approx((1, 1, 1))


def test_other_sizes_and_budgets(known):
    """A size costs the same wherever it stands; errors are in proportion to 1/N."""
    _, pools, found = known
    other = advise(analysed(pools, [4]), [3, 8], 4 * BUDGET)
    assert [row.group_size for row in other.rows] == sorted({3, 8, found.recommended})
    assert other.row(8).cost == found.row(8).cost
    assert other.row(8).mse == pytest.approx([end / 4 for end in found.row(8).mse])
    assert other.relative_error.value == pytest.approx(found.relative_error.value / 4)


def test_kept_as_data_and_read_again(known, tmp_path):
    """All but the curves, to five digits; infinite ends too; what is damaged is refused."""
    found, path = replace(known[2], curves={}), tmp_path / "advice.json"
    best = Estimate(4.0, 3.0, math.inf)
    for one in (found, replace(found, best=best)):
        write_json(path, one.as_dict())
        again = restore_advice(path)
        assert again.as_dict() == one.as_dict()
        assert (again.best, again.rows[0].cost) == (
            pytest.approx(one.best, rel=1e-4),
            pytest.approx(one.rows[0].cost, rel=1e-4),
        )
    path.write_text(path.read_text().replace('"recommended"', '"recommend"'))
    with pytest.raises(InputError, match=r"advice\.json: damaged \(.*recommended"):
        restore_advice(path)


def test_without_spread_between_prompts_there_is_no_upper_bound(alike):
    rng = np.random.default_rng(3)
    found = advise_on(sample(alike, rng))
    assert found.unbounded
    assert found.c1.low <= 0
    assert found.recommended in SIZES


def test_beats_vanilla_from(known):
    """The interval holds the smallest size at which the exact error is smaller."""
    design, pools, found = known
    truth = next(
        size
        for size in range(2, 1000)
        if exact_mse(design, "grpo", size) < exact_mse(design, "vanilla", size)
    )
    low, high = found.beats_vanilla_from[1:]
    assert 2 <= low <= truth <= high
    # Exactly: the first size at which the estimated error is smaller.
    constants = Population(pools).constants
    value = found.beats_vanilla_from.value
    for size, beats in ((value, True), (value - 1, False)):
        grpo = constants.c2 + constants.c3 / (size - 1)
        assert (grpo < constants.vanilla) == beats


def test_never_beats_vanilla_where_right_completions_have_small_scores():
    rng = np.random.default_rng(5)
    design = make_design(rng, prompts=POPULATION, values=(0.3, 0.7))
    right = design.reward_PC == 1
    score = np.where(right, 0.1, 1.0)[..., None] * design.score_PCD
    # The wrong completions take up the mean, so that E[W] = 0.
    mean = design.mean(score.transpose(2, 0, 1)).T
    wrong = design.mean(~right)
    score -= (~right / wrong[:, None])[..., None] * mean[:, None]
    design = replace(design, score_PCD=score)
    sizes = range(2, 257)
    assert all(
        exact_mse(design, "grpo", size) > exact_mse(design, "vanilla", size)
        for size in sizes
    )
    found = advise_on(sample(design, rng))
    assert all(map(math.isinf, found.beats_vanilla_from))
    [vanilla] = [one for one in found.alternatives if one.estimator == "vanilla"]
    assert vanilla.cost.high < 1


def test_hand_arithmetic():
    # c1 = 1, c2 = 2, c3 = 9, c_vanilla = 5: G* = 1 + 3, beats vanilla above 1 + 9/3 = 4.
    known = KnownPopulation(1.0, 2.0, 9.0, 5.0, 1.0)
    assert known.best_group_size(LEVEL) == pytest.approx((4, 4, 4))
    assert beats_vanilla_from(known, LEVEL) == (5, 5, 5)
    # N MSE at G = 4: 1 * 4 + 2 + 9/3 = 9 and 4 + 5 = 9; a negative c1 counts as zero.
    assert mse_times_budget("grpo", known.constants, 4) == 9
    assert mse_times_budget("vanilla", known.constants, 4) == 9
    negative = KnownPopulation(-1.0, 2.0, 9.0, 5.0, 1.0)
    assert mse_times_budget("grpo", negative.constants, 4) == 5
    assert negative.best_group_size(LEVEL).value == math.inf
    # Vanilla's constant equal to the oracle's: never, for c3 > 0.
    never = KnownPopulation(1.0, 2.0, 9.0, 2.0, 1.0)
    assert beats_vanilla_from(never, LEVEL).value == math.inf


def test_shares_of_zero_variance_groups(known):
    """Against p^G + (1-p)^G over the population; none where the pools are too small."""
    design, pools, found = known
    value = design.mean(design.reward_PC)
    for row in found.rows:
        truth = (value**row.group_size + (1 - value) ** row.group_size).mean()
        # Of larger groups a few rare prompts decide.
        assert standard_errors(row.zero_variance, truth) < 4 or row.group_size > 16
    few = replace(pools, reference_rewards_PN=pools.reference_rewards_PN[:, :-240])
    few = advise_on(few)
    shares = {row.group_size: row.zero_variance for row in few.rows}
    assert shares[256] is not None
    rng = np.random.default_rng(0)
    short = advise_on(sample(design, rng, reference=64, blocks=2, largest=16))
    shares = {row.group_size: row.zero_variance for row in short.rows}
    assert shares[64] is not None
    assert shares[128] is None


def test_an_unmeasurable_gradient_has_bounds_only():
    """Gradients without a common part: no relative error is claimed."""
    rng = np.random.default_rng(6)
    found = advise_on(sample(population(rng, shared=0.0), rng))
    assert math.isinf(found.noise_scale.high)


def test_no_advice_where_no_price_of_a_baseline_is_seen():
    """Rewards that vary, and a c3 that is estimated below zero: G* is not known."""
    rng = np.random.default_rng(9)
    pools = make_design(rng, prompts=3).draw(rng, 64, 4, 8)
    with pytest.raises(InputError, match="nothing to advise on"):
        advise_on(replace(pools, reference_product_P=np.full(3, -1e3)))


def test_equal_rewards(tmp_path):
    rng = np.random.default_rng(9)
    design = make_design(rng, prompts=3)
    design = replace(design, reward_PC=np.ones_like(design.reward_PC))
    with pytest.raises(InputError, match="nothing to advise on"):
        advise_on(design.draw(rng, 32, 2, 4))


def test_rewards_that_differ_within_one_prompt_of_six():
    rng = np.random.default_rng(9)
    design = make_design(rng, prompts=6)
    reward_PC = np.ones_like(design.reward_PC)
    reward_PC[0] = design.reward_PC[0]
    with pytest.raises(InputError, match="differ within 1 of 6 prompts only"):
        advise_on(replace(design, reward_PC=reward_PC).draw(rng, 32, 2, 4))


def test_groups_of_one():
    rng = np.random.default_rng(10)
    pools = make_design(rng, prompts=3).draw(rng, 16, 4, 1)
    with pytest.raises(InputError, match="advice needs one of two or more"):
        analysed(pools, [1], estimators=("vanilla",)).advise()


def test_two_prompts_are_too_few():
    """Without one of them nothing is left to tell how gradients differ."""
    rng = np.random.default_rng(10)
    pools = make_design(rng, prompts=2).draw(rng, 64, 2, 8)
    with pytest.raises(InputError, match="2 prompts: advice needs three or more"):
        advise_on(pools)
