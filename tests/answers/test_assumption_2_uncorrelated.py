"""Assumption 2 is refused where it is false, and only there."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from claimed_runs import DESIGNS, draw, evidence_of, verdicts
from mse_lab.answers.assumption_2_uncorrelated import (
    BEYOND_ONE,
    correlations,
    judge_correlation,
)
from mse_lab.answers.corollary_5_baseline import judge_baselines


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
