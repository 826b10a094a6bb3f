"""Assumption 2: the correlation by halves, and rho of rewards 0 and 1."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from benchmarks.random_prompts import SOURCES, population
from claimed_runs import DESIGNS, LEVEL, draw, evidence_of, take, verdicts
from makers import make
from mse_lab.answers import assumption_2 as ratio
from mse_lab.answers.assumption_2 import (
    BEYOND_ONE,
    correlations,
    judge_correlation,
    judge_norm_ratio,
    measure_correlations,
)
from mse_lab.answers.corollary_5_baseline import judge_baselines
from simulated import analysed


def unlike_spread(rng, cancel=False):
    """Norms of mean one that spread far among wrong completions alone, or correlate.

    With `cancel`, by 0.4 in half of the prompts and by -0.4 in the other half.
    """
    prompts, count = 60, 128
    rewards = (rng.random((prompts, count)) < rng.uniform(0.1, 0.9, (prompts, 1))) * 1.0
    norms2 = np.where(rewards == 1, 1.0, rng.lognormal(-0.5, 1.0, rewards.shape))
    if cancel:
        sign = np.where(np.arange(prompts) % 2, 1, -1)[:, None]
        norms2 = 1 + 0.4 * sign * (rewards - 0.5) + 0.2 * rng.random(rewards.shape)
    pools = DESIGNS["fair"].draw(rng, 64, 2, 64)
    gram = np.zeros_like(pools.gram_PKGG)
    index = np.arange(64)
    gram[..., index, index] = norms2.reshape(prompts, 2, 64)
    return evidence_of(
        "a", replace(pools, rewards_PN=rewards, gram_PKGG=gram), (4,), draws=9
    )


def test_assumption_2_is_not_refused_for_an_unlike_spread():
    """200 runs of correlation zero: at most 20 refused at 5%; false alarm 2e-3.

    The mean of sample correlations, whose scale is of the same completions, is refused in
    far more: the negative control.
    """
    rng = np.random.default_rng(0)
    refused = plain = 0
    for _ in range(200):
        evidence = unlike_spread(rng)
        refused += verdicts(judge_baselines(evidence))["Assumption 2"] == "fails"
        rewards, norms2 = evidence.pools.rewards_PN, evidence.pools.norms2_PN
        found = [np.corrcoef(*both)[0, 1] for both in zip(rewards, norms2, strict=True)]
        plain += stats.ttest_1samp(found, 0).pvalue < 0.05
    assert refused <= 20
    assert plain > 30


def test_assumption_2_fails_where_correlations_cancel():
    [claim, *_] = judge_baselines(unlike_spread(np.random.default_rng(1), cancel=True))
    assert claim.verdict == "fails"
    assert abs(claim.estimate.value) < 0.2


def test_correlation_by_hand():
    """Two halves of three; the second prompt is always right and left out."""
    norms = np.array([[1.0, 2, 3, 1, 1, 4], [1, 2, 3, 4, 5, 6]])
    pools = replace(
        draw("fair").pools,
        rewards_PN=np.array([[1.0, 0, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1]]),
        gram_PKGG=np.einsum("pkg,gh->pkgh", norms.reshape(2, 2, 3), np.eye(3)),
    )
    # Deviations -1, 0, 1 and 2/3, -1/3, -1/3: -1, scale sqrt(2 x 2/3) = 2/sqrt 3.
    # Then -1, -1, 2 and 1/3, 1/3, -2/3: -2, scale sqrt(6 x 2/3) = 2.
    expected = [[-1 / 2, -2 / (2 / np.sqrt(3))]]
    assert correlations(pools) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_correlation_beyond_one_is_explained(sign):
    """Two prompts whose halves give -1/2 and -1.7, or both positive: 1.1 on average."""
    norms = np.array([[1.0, 2, 3, 1, 1, 4], [1.0, 2, 3, 1, 1.2, 4]])
    pools = replace(
        draw("fair").pools,
        rewards_PN=np.array([[1.0, 0, 0, 1, 1, 0]] * 2) * sign,
        gram_PKGG=np.einsum("pkg,gh->pkgh", norms.reshape(2, 2, 3), np.eye(3)),
    )
    known = SimpleNamespace(norm2=norms[:, 0], best_baseline=norms[:, 0], value=norms[:, 0])
    run = SimpleNamespace(name="a", level=0.95, pools=pools, moments=known, law_only=False)
    assert BEYOND_ONE in judge_correlation(run).measured
    claim = judge_baselines(unlike_spread(np.random.default_rng(1), cancel=True))[0]
    assert BEYOND_ONE not in claim.measured


def test_the_smaller_of_two_p_values_counts_twice():
    """One test of the mean and one of the mean square refuse as often as one alone."""
    run = draw("fair")
    found = correlations(run.pools)
    mean = stats.ttest_1samp(found.mean(-1), 0).pvalue
    square = stats.ttest_1samp(found.prod(-1), 0, alternative="greater").pvalue
    expected = min(1, 2 * min(mean, square))
    assert judge_correlation(run).p_value == pytest.approx(expected, rel=0.02)


def test_a_mean_correlation_has_a_test_and_no_interval():
    claim = judge_baselines(unlike_spread(np.random.default_rng(1), cancel=True))[0]
    assert np.isnan([claim.estimate.low, claim.estimate.high]).all()
    assert f"within prompts {claim.estimate.value:.3g}" in claim.measured


SIZES = (4, 8)


def judge(run):
    [claim] = judge_norm_ratio(run)
    return claim


@pytest.mark.parametrize("kind", ["quiet", "loud"])
def test_refused_where_scores_follow_the_reward(kind):
    claim = judge(draw(kind))
    assert claim.verdict == "fails"
    assert (claim.estimate.high < 1) == (kind == "quiet")
    assert (claim.estimate.low > 1) == (kind == "loud")
    words = {"quiet": r"above their line on 0, below it on (\d+) of 60",
             "loud": r"above their line on (\d+), below it on 0 of 60"}[kind]  # fmt: skip
    # At the level 0.99 one or two more would be a surprise.
    assert int(re.search(words, claim.reason)[1]) >= 58


def test_prompts_that_miss_one_are_counted_on_either_side(monkeypatch):
    ends = np.array([[0.2, 1.2, 0.5], [0.8, 3.0, 1.5]])
    monkeypatch.setattr(ratio, "_known_ratios", lambda run: (ends, np.zeros(3)))
    assert judge(draw("quiet")).measured.endswith("misses 1 on 2 of 3")


def test_not_refused_where_they_do_not():
    """12 runs at the level 0.99, of which at most one is refused: false alarm 6e-3."""
    refused, design = 0, take(DESIGNS["fair"], 30)
    for seed in range(12):
        pools = design.draw(np.random.default_rng(seed), 16, 8, 16)
        claim = judge(analysed(pools, SIZES, level=LEVEL))
        refused += claim.verdict == "fails"
        assert claim.estimate.low < 1 < claim.estimate.high
    assert refused <= 1


def test_the_level_does_not_rest_on_the_intervals_of_single_prompts():
    """120 prompts, V 0.05 to 0.3, norms e^(0.8 N), 64 replicates: rho is 1 on all of them.

    Of 40 runs at most 8 refuse it: false alarm 1e-4 at 5%. Counted as Binomial(n, 5%), the
    prompts whose interval misses 1 would refuse it in nine of them (negative control).
    """
    rng, refused, counted = np.random.default_rng(0), 0, 0
    prompts = replace(SOURCES["the same, 64 replicates"], reference=16)
    for _ in range(40):
        run = analysed(prompts.draw(population("the same, 64 replicates"), rng)[1], SIZES)
        refused += measure_correlations(run.pools).p_value < 0.05
        ends = run.norm_ratios[np.isfinite(run.norm_ratios).all(-1), 1:]
        missed = ((ends[:, 0] > 1) | (ends[:, 1] < 1)).sum()
        counted += stats.binom.sf(missed - 1, len(ends), 0.05) < 0.05
    assert refused <= 8
    assert counted > 5


def test_it_holds_where_all_intervals_are_narrow():
    pools = take(DESIGNS["fair"], 8).draw(np.random.default_rng(0), 64, 32, 32)
    assert judge(analysed(pools, SIZES, level=LEVEL)).verdict == "holds"


def test_one_wide_interval_leaves_it_open():
    """The first prompt keeps five of its right completions."""
    pools = take(DESIGNS["fair"], 8).draw(np.random.default_rng(0), 64, 32, 32)
    rewards_PN = pools.rewards_PN.copy()
    rewards_PN[0] *= rewards_PN[0].cumsum() <= 5
    run = analysed(replace(pools, rewards_PN=rewards_PN), SIZES, level=0.9999)
    low, high = run.norm_ratios[:, 1:].T
    assert ((low > 1 / 2) & (high < 2)).tolist() == [False] + 7 * [True]
    assert judge(run).verdict == "undecided"


def test_counted_by_hand():
    """With one wrong answer rho is ((1-V)/V)^2, and all completions of a kind are alike.

    So each interval is a point, at 1 for V = 1/2 alone.
    """
    run = analysed(
        make("one wrong answer").draw(np.random.default_rng(0), 64, 2, 64), SIZES
    )
    claim = judge(run)
    assert "misses 1 on 24 of 24" in claim.measured
    value = run.moments.value
    line = (1 - value) / (2 - value)
    above = (run.norm_ratios[:, 0] > line).sum()
    assert f"above their line on {above}, below it on {24 - above} of 24" in claim.reason


def test_rewards_without_rho_leave_it_open():
    pools = DESIGNS["fair"].draw(np.random.default_rng(0), 64, 2, 8)
    graded = replace(pools, rewards_PN=pools.rewards_PN / 2)
    assert judge(analysed(graded, SIZES)).measured == "no rho"
    rare = replace(pools, rewards_PN=pools.rewards_PN * (np.arange(16) < 4))
    assert judge(analysed(rare, SIZES)).measured == "no rho"
    two = take(DESIGNS["fair"], 2).draw(np.random.default_rng(0), 64, 2, 8)
    claims = [judge(analysed(one, SIZES)) for one in (graded, rare, two)]
    assert {one.verdict for one in claims} == {"undecided"}
