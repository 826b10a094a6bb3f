"""Corrections: weights by hand, moments by enumeration of an engine that can be listed."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from mse.test_one_pool import counts_of
from mse_lab.mse.corrections import (
    CORRECTIONS,
    EXACT,
    NAMES,
    CorrectionPopulation,
    PairMeans,
    pair_means,
)
from simulated_engine import Engine, engines, pools_of

# Every bound is exceeded by some ratio.
ENGINE = Engine.random(np.random.default_rng(2), spread=2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", [1, 1, 1, 1, 1]),
        ("exact", [0.25, 1, 2.5, 4, 8]),
        ("TRL sequence_mask", [0.25, 1, 2.5, 0, 0]),
        ("TRL token_truncate", [0.25, 1, 2.5, 3, 3]),
        ("verl token_is", [0.25, 1, 2, 2, 2]),
        ("verl seq_is_rs", [0, 1, 0, 0, 0]),
        ("IcePop", [0, 1, 2.5, 4, 0]),
    ],
)
def test_ratios_are_weighed_as_the_trainers_do(name, expected):
    weights = CORRECTIONS[NAMES.index(name)].weigh(np.log([0.25, 1, 2.5, 4, 8]))
    np.testing.assert_allclose(weights, expected)


def expected_means(left_CD, right_CD, total):
    """The mean of the kernels over every block of so many completions."""
    rewards_C = ENGINE.rewards_C
    found = 0.0
    for counts in counts_of(total, len(rewards_C)):
        kinds_N = np.repeat(np.arange(len(counts)), counts)
        chance = stats.multinomial.pmf(counts, total, ENGINE.drawn_C)
        means = pair_means(left_CD[kinds_N] @ right_CD[kinds_N].T, rewards_C[kinds_N])
        found += chance * np.array(means)
    return PairMeans(*found)


@pytest.mark.parametrize("total", [4, 7])
@pytest.mark.parametrize("name", NAMES)
def test_bias_and_second_moment_are_without_bias(name, total):
    """Of each correction, against sums over all completions and over all groups."""
    place = NAMES.index(name)
    used_CD, exact_CD = ENGINE.corrected_FCD[[place, EXACT]]
    own, crossed = (expected_means(used_CD, one, total) for one in (used_CD, exact_CD))
    exact = expected_means(exact_CD, exact_CD, total)
    bias_D = ENGINE.mean_of(place) - ENGINE.gradient_D
    found = own.apart - 2 * crossed.apart + exact.apart
    assert found == pytest.approx(bias_D @ bias_D, abs=1e-10)
    for size in (2, 3, 5):
        assert own.second_moment(size) == pytest.approx(
            ENGINE.second_moment(place, size), rel=1e-10
        )


def test_only_the_uncut_ratio_is_without_bias():
    bias_F = [
        np.linalg.norm(ENGINE.mean_of(place) - ENGINE.gradient_D)
        for place in range(len(CORRECTIONS))
    ]
    assert bias_F[EXACT] < 1e-12
    assert min(one for place, one in enumerate(bias_F) if place != EXACT) > 1e-3


def test_pair_means_are_means_over_different_completions():
    rng = np.random.default_rng(0)
    left, right, rewards = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), rng.random(5)

    def h(scores, i, j):
        return (scores[i] - scores[j]) * (rewards[i] - rewards[j]) / 2

    found = pair_means(left @ right.T, rewards)
    for value, indices in zip(
        found, ((0, 1, 2, 3), (0, 1, 0, 2), (0, 1, 0, 1)), strict=True
    ):
        each = [
            h(left, *(one[at] for at in indices[:2]))
            @ h(right, *(one[at] for at in indices[2:]))
            for one in product(range(5), repeat=4)
            if len(set(one)) == 4
        ]
        assert value == pytest.approx(np.mean(each))


@pytest.fixture(scope="module")
def population():
    """60 prompts, 512 completions of each."""
    rng = np.random.default_rng(0)
    listed = engines(rng, 60)
    return listed, CorrectionPopulation(pools_of(rng, listed, 512))


@pytest.mark.parametrize("name", ["none", "TRL sequence_mask", "TRL token_truncate"])
def test_a_population_is_told_within_four_errors(population, name):
    """False alarm: 1 in 8,000 for each figure, for 60 prompts as fixed as these less."""
    listed, found = population
    place = NAMES.index(name)
    judged = found.judge(place, 4, 16)
    truth = truth_of(listed, place, 4, 16)
    for key, value in truth.items():
        estimate = found.estimate(getattr(judged, key), 0.9999)
        assert estimate.low < value < estimate.high, key
    # By the jackknife over the 60 prompts, all of them first.
    plain = judged.inner**2 / (judged.mean_norm2 * judged.gradient2)
    unbiased = 60 * plain[0] - 59 * plain[1:61].mean()
    assert judged.cosine2[0] == pytest.approx(unbiased) != pytest.approx(plain[0])


def truth_of(listed, place, size, groups):
    """Figures of these very prompts, taken for all there are."""
    h_PD = np.array([one.mean_of(place) for one in listed])
    hbar, g = h_PD.mean(0), np.array([one.gradient_D for one in listed]).mean(0)
    within = np.mean([one.second_moment(place, size) - h @ h
                      for one, h in zip(listed, h_PD, strict=True)])  # fmt: skip
    noise = (((h_PD - hbar) ** 2).sum(1).mean() + within) / groups
    cosine2 = (hbar @ g) ** 2 / (hbar @ hbar) / (g @ g)
    return {
        "bias2": (hbar - g) @ (hbar - g) / (g @ g),
        "kept": hbar @ g / (g @ g),
        "noise": noise / (g @ g),
        "scale_free": 1 - cosine2 * (hbar @ hbar) / (hbar @ hbar + noise),
    }


def test_verls_settings_are_those_of_its_helper():
    """What `rollout_corr_helper.py` takes: k1 with bounds, or it raises a ValueError."""
    for one in CORRECTIONS:
        given = dict(word.split("=") for word in one.setting.split() if "rollout_" in word)
        assert given.get("rollout_is", "token") in ("token", "sequence")
        assert ("rollout_rs" in given) is ("rollout_rs_threshold" in given)
        if "rollout_rs" in given:
            assert given["rollout_rs"] == ("token_k1" if one.per_token else "seq_sum_k1")
            assert given["rollout_rs_threshold"] == f"{one.low}_{one.high}"
