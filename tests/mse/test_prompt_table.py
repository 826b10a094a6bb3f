"""Random prompts: the constants of a distribution, and how well few prompts know them."""

from collections import Counter
from dataclasses import fields, replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import stats

import simulated
from mse.test_reference_noise import independent_design
from mse_lab.mse.prompt_table import PromptSamples, mean_over_prompts, raise_to_zero
from mse_lab.mse.reference_noise import gradient2_of_all
from mse_lab.mse.samples import Samples
from simulated import POPULATION, population, scaled, table_of
from truths import Truth

make_pools = partial(simulated.make_pools, reference=256, blocks=2, largest=4, seed=1)


def make_table(prompts):
    return table_of(make_pools(prompts))


def with_gradient2(pools, gradient2_P):
    """The table of pools, with other ||g(x)||^2."""
    table = table_of(pools)
    return replace(table, moments=replace(table.moments, gradient2=gradient2_P))


def without(pools, prompt):
    """The pools of all prompts but one, or their samples."""
    if isinstance(pools, Samples):
        return Samples.of(one for at, one in enumerate(pools.blocks) if at != prompt)
    others = np.arange(pools.prompts) != prompt
    kept = {one.name: getattr(pools, one.name)[others] for one in fields(pools)}
    for name in ("between_PP", "halves_PP"):
        kept[name] = kept[name][:, others]
    return replace(pools, **kept)


def test_a_prompt_is_left_out_of_everything():
    """As if it had not been there: of 4 prompts, where pairs are 6 of 12."""
    pools = make_pools(4)
    for prompt in range(4):
        expected = table_of(without(pools, prompt)).samples
        for name, values in table_of(pools).samples._asdict().items():
            assert values[1 + prompt] == pytest.approx(getattr(expected, name)[0]), name


def test_an_error_varies_with_c1_where_its_estimate_is_negative():
    """c1 counts as zero in it, and every prompt moves it by as much as c1 itself."""
    pools = make_pools(8)
    samples = with_gradient2(pools, gradient2_of_all(pools) - 9).samples
    assert samples.c1[0] < 0
    raised = raise_to_zero(samples.c1)
    assert raised[0] == 0
    np.testing.assert_allclose(raised, samples.c1 - samples.c1[0], atol=1e-12)
    positive = table_of(pools).samples
    assert raise_to_zero(positive.c1)[0] == positive.c1[0] > 0


def test_the_jackknife_of_a_mean_is_the_textbooks():
    """As a standard error it has s / sqrt(P)."""
    table = make_table(7)
    mean, trace_P = table.statistic(lambda one: one.c2), table.moments.trace_oracle
    error = pytest.approx(trace_P.std(ddof=1) / np.sqrt(7), rel=1e-9)
    for found in (mean, mean_over_prompts(trace_P)):
        assert (found.value, found.error) == (pytest.approx(trace_P.mean()), error)


def test_prompts_that_carry_nothing_are_no_degrees_of_freedom():
    """By hand, of c1 or of c3 alone: 3, 1, 1 and 1 are 36 / 12 = 3 prompts.

    Of both, where c1 is on one prompt and c3 on all, the fewer count.
    """
    table, weights = make_table(60), np.zeros(60)
    weights[:4] = 3, 1, 1, 1
    nothing = replace(table.moments, norm2=0 * weights, gradient2=0 * weights)
    noisy = replace(nothing, norm2=weights / table.moments.variance)
    silent = replace(nothing, gradient2=weights)
    alone = replace(table.moments, gradient2=1e-6 * np.eye(60)[3])
    for moments, carriers in ((silent, 3), (noisy, 3), (nothing, 1), (alone, 1)):
        found = replace(table, moments=moments).effective_prompts
        assert found == pytest.approx(carriers)


def test_intervals_over_prompts_are_capped_by_those_that_carry_them():
    """Student's t at Kish's number of prompts, where that is the smaller."""
    table = make_table(8)
    found = table.statistic(lambda one: one.c1)
    degrees = min(found.spread.degrees, table.effective_prompts)
    assert degrees < found.spread.degrees
    reach = stats.t.ppf(0.975, degrees) * found.error
    estimate = table.estimate(lambda one: one.c1, 0.95)
    assert estimate.high - estimate.value == pytest.approx(reach)


def test_a_constant_has_one_interval():
    """Means of squares are positive by nature: their intervals are so in the logarithm.

    That of c1 is so where it is above zero by more than the reference's noise explains.
    """
    pools = make_pools(7)
    known = table_of(pools)
    unknown = with_gradient2(pools, 1e-3 * gradient2_of_all(pools))
    cases = (known, "c3"), (known, "c2"), (known, "c1"), (unknown, "c1")
    for table, name in cases:
        value, below, above = table.constant(name, 0.95)
        assert value == pytest.approx(getattr(table.samples, name)[0])
        assert below < value < above
        if table is known:
            assert below * above == pytest.approx(value**2)
        else:
            assert above - value == pytest.approx(value - below)
            assert below < 0


def test_c1_is_told_from_noise_no_more_often_than_said():
    """Without gradients: at the level 1/2 it is above its noise in a quarter of runs.

    64 runs: 4 to 28, more than 99.9% of them.
    """
    rng = np.random.default_rng(3)
    design = independent_design(rng, 20)
    runs = (table_of(design.draw(rng, 64, 4, 8)) for _ in range(64))
    assert 4 <= sum(one.knows_c1(0.5) for one in runs) <= 28


def test_figures_of_drawn_prompts_by_enumeration():
    """Means and means over pairs of different prompts, of all draws of 3 from 3."""
    rng = np.random.default_rng(2)
    apart = rng.standard_normal((3, 3))
    np.fill_diagonal(apart, 0.0)
    left, right = rng.standard_normal((2, 3))
    draws = list(product(range(3), repeat=3))
    counts = np.array([[draw.count(x) for x in range(3)] for draw in draws], float)
    samples = PromptSamples(counts)
    means = samples.means(left)[4:]
    products = samples.mean_products(apart, left, right)[4:]
    for draw, mean, number in zip(draws, means, products, strict=True):
        assert mean == pytest.approx(left[list(draw)].mean())
        pairs = [left[x] * apart[x, y] * right[y] for x in draw for y in draw if x != y]
        assert number == pytest.approx(np.mean(pairs) if pairs else 0.0)


@pytest.mark.parametrize(("prompts", "scale"), [(60, 0.0), (8, 0.8), (20, 0.8), (60, 0.8)])
def test_coverage_of_the_best_group_size_and_of_the_squared_gradient(prompts, scale):
    """300 runs each, of P prompts whose scores differ by factors e^(scale N).

    A false alarm has 1e-3 if the coverage is 0.95. With plain percentiles over prompts it
    was 80 to 93 percent. `benchmarks/coverage.py` measures it with more runs. Of prompts
    that are alike a nominal level of 0.77 is seen to be too low.
    """
    rng, held = np.random.default_rng(1), Counter()
    design = scaled(population(rng), np.exp(scale * rng.standard_normal(POPULATION)))
    truth = Truth(design)
    truths = {"G*": truth.best_size}
    if not scale:  # That of prompts unlike one another is missed more often.
        truths["||g||^2"] = truth.constants.gradient2.item()
    for _ in range(300):
        run = table_of(design.some(rng, prompts).draw(rng, 256, 2, 16))
        for level in (0.95, 0.77):
            gradient2 = run.estimate(lambda one: one.gradient2, level)
            found = {"G*": run.best_group_size(level), "||g||^2": gradient2}
            for name, true in truths.items():
                held[name, level] += found[name].low <= true <= found[name].high
    for (_, level), count in held.items():
        short = stats.binomtest(count, 300, 0.95, "less").pvalue
        if level == 0.95:
            assert short > 1e-3, held
        elif not scale:
            assert short < 1e-6, held
