"""Intervals: coverage is measured, on designs like and unlike one another.

A run counts as covering when the exact value lies in its interval. Binomial tests have a
false-alarm probability of 1e-3 if the coverage is exactly 0.95. `benchmarks/coverage.py`
measures all designs with more runs; here stands what must not break.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from designs import FIXED
from mse.test_curves import curves_of
from mse.test_prompt_table import make_table
from mse_lab import analyse
from mse_lab.estimators import find_estimators
from mse_lab.mse.curves import disagreement, measure_curves, paired_ratio
from mse_lab.mse.intervals import (
    Bootstrap,
    Estimate,
    Statistic,
    falling,
    percentiles,
    spread_of_means,
)
from mse_lab.mse.prompt_table import PromptSamples
from mse_lab.mse.replicates import Key
from mse_lab.results.warnings import warn_of_few_degrees
from simulated import make_pools
from truths import Truth

LEVEL, TRIALS, SIZES = 0.95, 160, (4, 64)

UNBIASED = ("vanilla", "grpo", "oracle")
# Of which prompts the errors of which estimators are asked.
BIASED = ("centred", "grpo-std")
CASES = {
    "own": (*UNBIASED, *BIASED),
    "5 of 60 active": UNBIASED,
    "one of 60 x 5": UNBIASED,
    "P = 4": UNBIASED,
    "U-shaped V": ("grpo", "oracle"),
}


@cache
def runs_of(name):
    """Read the runs of a design: {(number, estimator, G): what is read of each, (runs, 4)}.

    Numbers are the measured `mse`, its `law`, and the paired `ratio` to the oracle. Of each
    run it is read whether the interval holds the truth, whether one with a normal's tails
    does, whether the run says that it knows too little, and the p-value of replicates and
    law.
    """
    design, rng, rows = FIXED[name](), np.random.default_rng(0), {}
    names, known = [*CASES.get(name, UNBIASED)], Truth(design)
    exact = {
        Key(one.name, size): float(known.decomposed(one, size).mse)
        for one in find_estimators(names, [*SIZES])
        for size in SIZES
    }
    for _ in range(TRIALS):
        pools = design.draw(rng, 256, 2, 64)
        found = measure_curves(*curves_of(pools, names, SIZES, 100, rng))
        few = bool(warn_of_few_degrees(pools, found))
        for key, (measured, law) in found.items():
            base, truth = key._replace(estimator="oracle"), exact[key]
            number, p_value = measured.statistic(), disagreement(measured, law)
            normal = abs(number.value - truth) < 1.96 * number.error
            said = {
                "mse": (number.interval(LEVEL, positive=True), truth),
                "law": (law.statistic().interval(LEVEL, positive=True), truth),
            }
            if key != base and (ratio := paired_ratio(measured, found[base][0], LEVEL)):
                said["ratio"] = (ratio, truth / exact[base])
            for kind, (one, true) in said.items():
                held = one.low <= true <= one.high
                rows.setdefault((kind, *key), []).append((held, normal, few, p_value))
    return {key: np.array(each) for key, each in rows.items()}


def shortfall(covered_R, level=LEVEL):
    """Probability of so few or fewer, if the coverage were the level."""
    covered, runs = int(sum(covered_R)), len(covered_R)
    return stats.binomtest(covered, runs, level, alternative="less").pvalue


@pytest.mark.parametrize("name", CASES)
def test_coverage(name):
    """MSE and law at G = 4 and 64, prompts like and unlike; of like ones the ratio too."""
    for key, rows in runs_of(name).items():
        if key[0] != "ratio" or name == "own":
            assert shortfall(rows[:, 0]) > 1e-3, (key, rows[:, 0].mean())


def test_a_single_prompt_with_two_blocks_is_covered_or_said_to_know_too_little():
    """At least 90%; false alarm 1e-3. Two groups alone tell little, and the run says so."""
    for key, rows in runs_of("P = 1").items():
        held, _, few, _ = rows.T.astype(bool)
        assert shortfall(held | few, 0.9) > 1e-3, key
        assert few.mean() > 0.5


def test_student_tails_are_needed():
    """Negative control: normal tails cover far too little where few prompts carry all."""
    normal = runs_of("5 of 60 active")["mse", "vanilla", 64][:, 1]
    assert shortfall(normal) < 1e-3, normal.mean()


@pytest.mark.parametrize("name", CASES)
def test_law_and_replicates_disagree_at_the_nominal_rate(name):
    """At most 10% of 160 runs below 0.05, none below 1e-4; false alarm about 3e-3 each."""
    p_values = runs_of(name)["mse", "grpo", 4][:, 3]
    assert (p_values < 0.05).mean() < 0.1
    assert p_values.min() > 1e-4


@pytest.mark.parametrize(
    ("groups", "variance", "uncertainty"),
    [
        # Means of two groups: 1 and 5; s^2 = 2 and 8; V = 2/2 + 8/2. Of two each
        # U = sum 2 s^4 / 3, over R^2 = 4.
        ([[0.0, 2.0], [3.0, 7.0]], 5, (2 * 4 / 3 + 2 * 64 / 3) / 4),
        # Nine zeros and a ten: s^2 = 10, m4 = 657; (m4 - s^4 7/9)/10 = 57.9, not 2 s^4/11.
        ([[0.0] * 9 + [10.0]], 1, (657 - 100 * 7 / 9) / 10 / 10**2),
    ],
)
def test_a_variance_and_its_uncertainty_by_hand(groups, variance, uncertainty):
    assert spread_of_means(np.array(groups)) == pytest.approx((variance, uncertainty))


def test_a_claim_is_refuted_by_the_degrees_of_a_single_prompt():
    """400 like prompts of three groups each: Student's p at two degrees, not at 800."""
    groups = {"run": np.random.default_rng(0).standard_normal((400, 3))}
    error = Statistic(0.0, groups, {}).error
    refuted = Statistic(-4 * error, groups, {}).p_refuted()
    assert refuted == pytest.approx(2 * stats.t.sf(4, 2))


def test_degrees_know_heavy_tails():
    """One rare group of 64 that carries the variance is no evidence of its size."""
    groups = np.zeros((1, 64))
    groups[0, 0] = 1
    assert spread_of_means(groups).degrees == 1


def test_arithmetic_stays_paired():
    groups = np.random.default_rng(0).standard_normal((5, 8)) + 9
    shift = np.random.default_rng(1).standard_normal(50)
    one = Statistic(9.0, {"a": groups}, {"a": shift})
    assert (one - one).error == 0
    assert (one / one).error == pytest.approx(0, abs=1e-12)
    assert (one * 2 - one - one).error == pytest.approx(0, abs=1e-12)
    coarse = Statistic(9.0, {"a": groups.reshape(5, 4, 2).mean(-1)}, {"a": shift})
    assert (one - coarse).error == pytest.approx(0, abs=1e-12)
    # Another run's groups and reference are independent of this one's.
    other = Statistic(9.0, {"b": groups}, {"b": shift})
    assert (one - other).spread.variance == pytest.approx(2 * one.spread.variance)


def test_a_ratio_needs_a_base_that_is_measurably_positive():
    groups = np.array([[1.0, -1.0]])
    top, base = Statistic(1.0, {"a": groups}, {}), Statistic(0.5, {"a": groups}, {})
    assert np.isnan((top / base).value)
    assert np.isnan((top / base).interval(LEVEL, positive=True).low)
    # Without a logarithm to take, the larger is told by the difference.
    assert top.exceeding(base).value == 0.5


def test_positive_numbers_have_positive_intervals():
    one = Statistic(2.0, {"a": np.array([[1.0, 2.0, 3.0]])}, {})
    low, high = one.interval(LEVEL, positive=True)[1:]
    assert 0 < low < 2 < high
    assert low * high == pytest.approx(4)
    # Student's t at 2 degrees is 4.3027; s^2 = 1 of three groups.
    assert one.interval(LEVEL).high == pytest.approx(2 + 4.30265 / 3**0.5, rel=1e-5)


def test_degrees_of_the_references_own_noise():
    """By hand: V = n, U = 2 n^2 / 10, so 2 V^2 / U - 2 = 8; of two, at the fewer degrees.

    Then V = 2n and U = 2 x 2 n^2 / 6, so 2 V^2 / U - 2 = 10.
    """
    shift = np.array([-1.0, 1.0])
    one = Statistic(9.0, {}, {"a": shift}, 10.0)
    other = Statistic(9.0, {}, {"b": shift}, 6.0)
    assert one.spread.degrees == pytest.approx(8)
    assert (one + other).spread.degrees == (other - one).spread.degrees == pytest.approx(10)


BOOTSTRAP = Bootstrap(20000, 1)


def test_draws_of_groups_have_the_variance_without_bias():
    """sum_x s_x^2 / R, to four standard errors of a variance of 20,000 draws: 4%."""
    groups_PR = np.random.default_rng(0).lognormal(size=(5, 4))
    drawn = BOOTSTRAP.shift_of_groups({"run": groups_PR})
    assert drawn.var() == pytest.approx((groups_PR.var(-1, ddof=1) / 4).sum(), rel=0.06)
    assert abs(drawn.mean()) < 4 * drawn.std() / np.sqrt(20000)


def test_draws_of_prompts_have_the_variance_without_bias():
    """s^2 / P of a mean over prompts, to four standard errors of 20,000 draws."""
    value_P = np.random.default_rng(0).lognormal(size=4)
    drawn = PromptSamples(BOOTSTRAP.count_prompts(4)).means(value_P)[5:]
    assert drawn.var() == pytest.approx(value_P.var(ddof=1) / 4, rel=0.06)


def test_groups_of_one_run_stay_paired():
    """What two numbers of the same groups have in common cancels in every draw."""
    groups_PR = np.random.default_rng(0).lognormal(size=(5, 4))
    one = Statistic(2.0, {"run": groups_PR}, {}, bootstrap=BOOTSTRAP)
    ratio = ((one * 3.0) / one).interval(0.95)
    assert ratio == pytest.approx((3, 3, 3))
    assert one.interval(0.95).low < 2 < one.interval(0.95).high
    plain = replace(one, bootstrap=None)
    assert (plain + one).bootstrap is (one + plain).bootstrap is BOOTSTRAP


def test_intervals_over_prompts_hold_the_estimate_and_repeat():
    """They depend on the seed alone, and lie about as wide as the closed form's."""
    plain = make_table(40)
    drawn = replace(plain, bootstrap=Bootstrap(4000, 0))
    for name in ("c1", "c2", "c3", "gradient2"):
        closed, own = plain.constant(name, 0.95), drawn.constant(name, 0.95)
        assert own.value == pytest.approx(closed.value)
        assert own.low < own.value < own.high
        width = np.log((own.high - own.low) / (closed.high - closed.low))
        assert abs(width) < 0.5, name
    again = replace(plain, bootstrap=Bootstrap(4000, 0))
    assert again.best_group_size(0.95) == drawn.best_group_size(0.95)
    other = replace(plain, bootstrap=Bootstrap(4000, 1))
    assert other.best_group_size(0.95) != drawn.best_group_size(0.95)


def test_percentiles_count_draws_without_bound():
    assert percentiles(np.array([1.0, np.inf, np.nan, 2.0]), 0.5) == (1.0, np.inf)
    assert percentiles(np.arange(1.0, 101.0), 0.9) == (5.0, 95.0)


def test_the_analysis_takes_it_by_name():
    """Same values, other ends, the same bytes again; another name is refused."""
    pools = make_pools(12, 64, 4, 8, seed=3)
    given = {"group_sizes": [4, 8], "resamples": 300}
    closed, drawn, again = (
        analyse(vars(pools), **given, **more).mse
        for more in ({}, {"method": "bootstrap"}, {"method": "bootstrap"})
    )
    assert drawn.to_csv() == again.to_csv()
    for column in ("mse", "law", "ratio"):
        assert (drawn[column].dropna() == closed[column].dropna()).all()
        ends = closed[f"{column}_low"].to_numpy(), drawn[f"{column}_low"].to_numpy()
        varies = ~np.isnan(ends[0]) & (closed["estimator"] != "oracle").to_numpy()
        assert varies.any()
        assert (ends[0][varies] != ends[1][varies]).all()


def test_a_power_of_what_is_hardly_positive_is_infinite():
    """The reciprocal of a subnormal number is none."""
    ends = falling(Estimate(1.0, 5e-324, 4.0), -1.0)
    assert ends == (1.0, 0.25, math.inf)
