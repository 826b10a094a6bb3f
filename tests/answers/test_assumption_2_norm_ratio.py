"""rho = 1 is refused where it is false, and only there."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.random_prompts import SOURCES, population
from claimed_runs import DESIGNS, LEVEL, draw, take
from makers import make
from mse_lab.answers import assumption_2_norm_ratio as ratio
from mse_lab.answers.assumption_2_norm_ratio import judge_norm_ratio
from mse_lab.answers.assumption_2_uncorrelated import measure_correlations
from simulated import analysed

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
