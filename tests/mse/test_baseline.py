"""The best affine baseline: against a search, by hand, on prompts left out, on runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import optimize

from designs import VERDICTS
from mse_lab.config.probe_files import parse_probe
from mse_lab.mse.baseline import fit_at, fit_baseline
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.loss import Aim, find_aims
from mse_lab.mse.progress import ratio_of_costs
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.samples import Samples
from mse_lab.results.tables import restore_moments
from populations import ExactTable, choose, population, table_of

RESULTS = Path(__file__).parents[2] / "results"


def noise_at(table, alpha, part, size):
    """c1 G + E[A - 2bB + b^2 S - gamma] + lambda^2 c3/(G-1), by the moments' names."""
    one, c1 = table.moments, table.constants.c1.item()
    b_P = alpha + part * one.value
    residual_P = one.reward2_norm2 - 2 * b_P * one.reward_norm2 + b_P**2 * one.norm2
    group = part**2 * one.zeta / (size - 1) if size > 1 else 0.0
    return size * c1 + np.mean(residual_P - one.gradient2 + group)


def table_of_exact(design):
    """Prompts drawn at random, of known moments and gradients."""
    gradient_PD = design.gradient_PD
    apart_PP = without_diagonal(gradient_PD @ gradient_PD.T)
    return PromptTable(design.moments(), apart_PP, np.zeros(design.prompts), binary=True)


@pytest.mark.parametrize("graded", [False, True], ids=["0 and 1", "graded"])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_the_fit_is_what_a_search_finds(size, graded):
    """By prompts of known moments; any other alpha or lambda costs more."""
    design = choose(population(np.random.default_rng(2)), np.arange(50))
    if graded:
        more = np.random.default_rng(0).uniform(0, 1, design.reward_PC.shape)
        design = replace(design, reward_PC=design.reward_PC + more)
    table = table_of_exact(design)
    found = fit_at(table, size)
    searched = optimize.minimize(
        lambda x: noise_at(table, x[0], x[1] if size > 1 else 0.0, size),
        [0.0, 0.0],
        tol=1e-12,
    ).x
    assert found.alphas[0] == pytest.approx(searched[0], abs=1e-5)
    assert found.lams[0] == pytest.approx(searched[1] if size > 1 else 0.0, abs=1e-5)
    assert 0.0 < found.lams[0] < 1.0 or size == 1


def test_the_two_numbers_as_a_user_types_them():
    table = table_of_exact(choose(population(np.random.default_rng(2)), np.arange(50)))
    alone, pair = fit_at(table, 1), fit_at(table, 2)
    assert alone.entry == {"name": "constant", "alpha": round(alone.alphas[0], 3)}
    assert pair.entry["lambda"] == float(f"{pair.lams[0]:.3g}") == pair.lam
    for one in (alone, pair):
        [aim] = find_aims(table, one.entry, [one.group_size]).values()
        truth = noise_at(table, one.alphas[0], one.lams[0], one.group_size)
        assert aim.noise[0] == pytest.approx(truth, rel=1e-4)


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
        others = np.delete(np.arange(7), x)
        moments = {
            name: values[others] if np.ndim(values) else values
            for name, values in vars(table.moments).items()
            if name != "given_baseline"
        }
        rest = PromptTable(
            moments=type(table.moments)(**moments),
            products_PP=table.products_PP[np.ix_(others, others)],
            gradient_noise_P=table.gradient_noise_P[others],
            binary=True,
        )
        fitted = fit_at(rest, size)
        alpha, part = fitted.alphas[0], fitted.lams[0]
        assert (found.alphas[1 + x], found.lams[1 + x]) == pytest.approx((alpha, part))
        price = table.moments.affine_baseline(alpha, part)[x]
        price_P.append(price + part**2 * table.moments.zeta[x] / max(size - 1, 1))
    c1 = table.samples.nonnegative_c1
    expected = size * c1[0] + np.mean(price_P)
    assert found.aim.noise[0] == pytest.approx(expected)
    without_first = size * c1[1] + np.mean(price_P[1:])
    assert found.aim.noise[1] == pytest.approx(without_first)


def test_the_price_is_that_of_new_prompts_and_the_fits_own_value_is_not():
    """300 fits to 24 prompts of 12 completions; within four standard errors.

    The optimum's own value is below the price of its two numbers on all 4,000 prompts, by
    far more than that.
    """
    rng, size = np.random.default_rng(4), 4
    design = population(rng)
    exact, off, own = ExactTable.of(design), [], []
    for _ in range(300):
        index = rng.choice(design.prompts, 24, replace=False)
        table = table_of(Samples.of(choose(design, index).sample(rng, 12)))
        found = fit_at(table, size)
        two = found.alphas[0], found.lams[0]
        truth = noise_at(exact, *two, size) - size * exact.constants.c1.item()
        c1 = size * table.samples.nonnegative_c1[0]
        off.append(found.aim.noise[0] - c1 - truth)
        group = two[1] ** 2 * table.moments.zeta / (size - 1)
        own.append((table.moments.affine_baseline(*two) + group).mean() - truth)
    error = np.std(np.subtract(off, own)) / np.sqrt(300)
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(300)
    assert np.mean(off) - np.mean(own) > 10 * error
    assert np.mean(own) < -2 * np.std(own) / np.sqrt(300)


def ratios(design, size, few, runs=200):
    """Ratios to GRPO-type at G = 8, and what they are with the numbers that were fitted."""
    rng, exact = np.random.default_rng(5), ExactTable.of(design)
    [base] = find_aims(exact, "grpo", [8]).values()
    for _ in range(runs):
        some = choose(design, rng.choice(design.prompts, 60, replace=False))
        drawn = Samples.of(some.sample(rng, 12)) if few else some.draw(rng, 64, 4, 8)
        table = table_of(drawn)
        found = fit_at(table, size)
        [own] = find_aims(table, "grpo", [8]).values()
        ratio = ratio_of_costs(table, found.aim.cost(0), own.cost(0), 0.95)
        truth = noise_at(exact, found.alphas[0], found.lams[0], size) / base.noise.item()
        yield ratio, truth


RARE = (
    "1 in 20, scores x2",
    "1 in 20, scores x3",
    "1 in 40, scores x4",
    "1 in 100, scores x6",
)
HARD = ("half easy, half hard", "both, scores e^(0.8 N)", "heavy lengths", "V 0.01 to 0.12")


@pytest.mark.parametrize("few", [False, True], ids=["a run", "few completions"])
def test_the_ratio_to_ones_own_loss_is_covered(few):
    """200 tables of 60 prompts: in 180 or more the 95% interval holds the truth.

    With 95% that is missed in 1 of 500 series.
    """
    drawn = ratios(population(np.random.default_rng(5)), 1, few)
    assert sum(ratio.low <= truth <= ratio.high for ratio, truth in drawn) >= 180


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("name", [*HARD, *RARE])
def test_where_few_prompts_carry_it_no_saving_is_made_up(name, size):
    """At least 5% is hardly ever said to be saved where it is not.

    Of a rare kind of prompts a sample may hold none, so intervals cover less there.
    """
    drawn = list(ratios(VERDICTS[name].whole, size, few=True))
    made_up = sum(ratio.high < 1 / 1.05 < truth for ratio, truth in drawn)
    assert made_up <= 10
    if name in HARD:
        assert sum(ratio.low <= truth <= ratio.high for ratio, truth in drawn) >= 180


# Cost over GRPO-type at G = 8 of the constant at G = 1, and its alpha; of the affine
# baseline at G = 2 and 8; of the oracle at G = 8.
COMMITTED = {
    "smollm2/base": (0.58, 0.27, 0.61, 0.91, 0.92),
    "smollm2/icl": (0.23, 0.24, 0.32, 0.84, 0.96),
    "smollm2/instruct": (0.76, 0.07, 0.76, 0.80, 0.84),
    "smollm2/words-base": (0.91, 0.12, 0.91, 0.92, 0.89),
    "smollm2/words-icl": (0.91, 0.22, 0.89, 0.90, 0.87),
    "smollm2/words-instruct": (1.03, 0.23, 0.98, 0.91, 0.88),
    "tiny/base": (0.30, 0.12, 0.35, 0.66, 0.90),
    "tiny/instruct": (0.38, 0.24, 0.43, 0.72, 0.92),
    "tiny/icl": (0.29, 0.24, 0.35, 0.70, 0.95),
    "worked/base": (0.27, 0.10, 0.32, 0.57, 0.90),
    "worked/instruct": (0.22, 0.13, 0.28, 0.61, 0.93),
    "worked/icl": (0.14, 0.10, 0.18, 0.44, 0.95),
    "lenient/base": (0.75, 0.69, 0.77, 0.90, 0.91),
    "lenient/instruct": (0.87, 0.87, 0.87, 0.92, 0.96),
    "lenient/icl": (0.89, 0.92, 0.89, 0.94, 0.97),
}


def table_of_run(name):
    """A run by its tables alone: moments from `prompts.csv`, c1 from `advice.json`."""
    folder = RESULTS / name
    probe = parse_probe(yaml.safe_load((folder / "config.yaml").read_text()), name)
    table = pd.read_csv(folder / "prompts.csv")
    moments = restore_moments(table, probe.pool.reference)
    c1 = json.loads((folder / "advice.json").read_text())["c1"]["value"]
    apart_PP = (moments.gradient2.mean() - c1) * (1 - np.eye(len(table)))
    return PromptTable(moments, apart_PP, np.zeros(len(table)), binary=True)


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_runs_are_worth_what_the_page_says(name):
    table = table_of_run(name)
    fitted = [fit_at(table, size) for size in (1, 2, 8)]
    base, oracle = (
        Aim.of_unbiased(table.samples, one, 8).noise[0] for one in ("grpo", "oracle")
    )
    alone, two, eight = (one.aim.noise[0] / base for one in fitted)
    found = (alone, fitted[0].alpha, two, eight, oracle / base)
    assert found == pytest.approx(COMMITTED[name], abs=0.011)
    best = fit_baseline(table, (1, 2, 8))
    assert best.aim.noise[0] == min(one.aim.noise[0] for one in fitted)
