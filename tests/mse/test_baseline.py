"""The best affine baseline: against a search, by hand, on prompts left out, on runs."""

from dataclasses import replace

import numpy as np
import pytest

from designs import VERDICTS
from mse.test_prompt_table import without
from mse_lab.mse.baseline import fit_at
from mse_lab.mse.loss import find_aims, ratio_of_costs
from mse_lab.mse.prompt_table import raise_to_zero
from mse_lab.mse.samples import Samples
from simulated import choose, exact_table, population, table_of
from truths import Truth


@pytest.mark.parametrize("graded", [False, True], ids=["0 and 1", "graded"])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_the_fit_is_what_a_search_finds(size, graded):
    """By prompts of known moments; any other alpha or lambda costs more."""
    design = choose(population(np.random.default_rng(2)), np.arange(50))
    if graded:
        more = np.random.default_rng(0).uniform(0, 1, design.reward_PC.shape)
        design = replace(design, reward_PC=design.reward_PC + more)
    table = exact_table(design)
    found = fit_at(table, size)
    two = found.alphas[0], found.lams[0]
    assert two == pytest.approx(Truth(design).best_affine(size), abs=1e-5)
    assert 0.0 < found.lams[0] < 1.0 or size == 1


def test_the_two_numbers_as_a_user_types_them():
    design = choose(population(np.random.default_rng(2)), np.arange(50))
    table = exact_table(design)
    alone, pair = fit_at(table, 1), fit_at(table, 2)
    assert alone.entry == {"name": "constant", "alpha": round(alone.alphas[0], 3)}
    assert pair.entry["lambda"] == float(f"{pair.lams[0]:.3g}") == pair.lam
    for one in (alone, pair):
        [aim] = find_aims(table, one.entry, [one.group_size]).values()
        truth = Truth(design).affine_aim(one.alphas[0], one.lams[0], one.group_size)
        assert aim.noise[0] == pytest.approx(truth.noise, rel=1e-4)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("few", [False, True], ids=["a run", "few completions"])
def test_a_prompts_price_is_that_of_the_fit_to_the_others(few, size):
    """One prompt after another, fitted again without it and priced by hand."""
    rng = np.random.default_rng(3)
    design = choose(population(rng), np.arange(7))
    measured = Samples.of(design.sample(rng, 8)) if few else design.draw(rng, 64, 4, 8)
    table = table_of(measured)
    found, price_P = fit_at(table, size), []
    for x in range(7):
        rest = table_of(without(measured, x))
        fitted = fit_at(rest, size)
        alpha, part = fitted.alphas[0], fitted.lams[0]
        assert (found.alphas[1 + x], found.lams[1 + x]) == pytest.approx((alpha, part))
        price = table.moments.affine_baseline(alpha, part)[x]
        price_P.append(price + part**2 * table.moments.zeta[x] / max(size - 1, 1))
    c1 = raise_to_zero(table.samples.c1)
    expected = size * c1[0] + np.mean(price_P)
    assert found.aim.noise[0] == pytest.approx(expected)
    without_first = size * c1[1] + np.mean(price_P[1:])
    assert found.aim.noise[1] == pytest.approx(without_first)


def ratios(design, size, few, runs=200):
    """Ratios to GRPO-type at G = 8, and what they are with the numbers that were fitted."""
    rng, exact = np.random.default_rng(5), Truth(design)
    for _ in range(runs):
        some = choose(design, rng.choice(design.prompts, 60, replace=False))
        drawn = Samples.of(some.sample(rng, 12)) if few else some.draw(rng, 64, 4, 8)
        table = table_of(drawn)
        found = fit_at(table, size)
        [own] = find_aims(table, "grpo", [8]).values()
        ratio = ratio_of_costs(table, found.aim.cost(0), own.cost(0), 0.95)
        fitted = exact.affine_aim(found.alphas[0], found.lams[0], size).noise.item()
        yield ratio, fitted / exact.cost(8)


RARE = [name for name in VERDICTS if name.startswith("1 in ")]
HARD = ("half easy, half hard", "both, scores e^(0.8 N)", "heavy lengths", "V 0.01 to 0.12")


@pytest.mark.parametrize("few", [False, True], ids=["a run", "few completions"])
def test_the_ratio_to_ones_own_loss_is_covered(few):
    """200 tables of 60 prompts: in 180 or more the 95% interval holds the truth.

    With 95% that is missed in 1 of 500 series.
    """
    drawn = ratios(population(np.random.default_rng(5)), 1, few)
    assert sum(ratio.low <= truth <= ratio.high for ratio, truth in drawn) >= 180


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [*zip((*HARD, *RARE), [1, 8] * 4, strict=True)])
def test_where_few_prompts_carry_it_no_saving_is_made_up(name, size):
    """At least 5% is hardly ever said to be saved where it is not.

    Of a rare kind of prompts a sample may hold none, so intervals cover less there.
    """
    drawn = list(ratios(VERDICTS[name].whole, size, few=True))
    made_up = sum(ratio.high < 1 / 1.05 < truth for ratio, truth in drawn)
    assert made_up <= 10
    if name in HARD:
        assert sum(ratio.low <= truth <= ratio.high for ratio, truth in drawn) >= 180
