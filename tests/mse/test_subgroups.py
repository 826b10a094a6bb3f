"""Sub-groups: no bias, by enumeration of every pool that can be drawn."""

from itertools import product

import numpy as np
import pytest

from designs import with_bonus
from enumerated import Enumerated
from mse.test_one_pool import PROBABILITY_C, enumerate_pools, expected, make_scores
from mse_lab.estimators import ESTIMATORS, Estimator, find_estimator
from mse_lab.mse import subgroups as subject
from mse_lab.mse.loss import find_aims
from mse_lab.mse.samples import Samples
from mse_lab.mse.subgroups import figures_of_block, subgroups
from simulated import choose, make_design, make_sample, population, table_of
from truths import Truth

REWARDS = {
    "0, 0.1, 1, 1.1": np.array([1.1, 0, 0.1, 1]),
    "negative": np.array([-2.0, 0.5, -1, 3]),
    "0 and 1": np.array([1.0, 0, 1, 0]),
}
BONUS = REWARDS["0, 0.1, 1, 1.1"]
TRL = {"name": "grpo-std", "eps": 1e-4}
# The third's weights do not sum to zero, and those of one reward in one group differ.
ESTIMATORS_OF = {
    "TRL's": find_estimator(TRL),
    "centred": ESTIMATORS["centred"],
    "median": ESTIMATORS["median"],
    "curved": Estimator("curved", lambda groups: np.exp(groups.rewards_PRG / 2)),
}


@pytest.fixture
def every_subgroup(monkeypatch):
    """Leave none out."""
    monkeypatch.setattr(subject, "MOST", 10**4)
    subgroups.cache_clear()
    yield
    subgroups.cache_clear()


def truth(rewards_C, estimator, size):
    """E||g_hat||^2, <h, g>, and h."""
    parts = (PROBABILITY_C, make_scores(rewards_C), rewards_C, np.ones(4, dtype=int))
    policy = Enumerated(*(part[None] for part in parts))
    [mean], [gradient] = policy.mean_estimate(estimator, size), policy.gradient_PD
    [mse] = policy.mse(estimator, size)
    second = mse + 2 * mean @ gradient - gradient @ gradient
    return np.array([second, mean @ gradient, *mean])


def figures(estimator, size):
    def of(sample):
        found = figures_of_block(sample, estimator, size)
        return [found.second, found.inner, *sample.weighted_sum(found.weights_N)]

    return of


@pytest.mark.parametrize(
    ("total", "size", "name"),
    [
        *product((4,), (2, 3), ("TRL's", "median", "curved")),
        *product((8,), (2, 5, 7), ("TRL's", "median", "curved")),
        (16, 3, "TRL's"),
    ],
)
@pytest.mark.parametrize("rewards", REWARDS)
def test_nothing_is_biased(rewards, name, total, size, every_subgroup):
    """Neither in small groups nor in those that leave one completion out."""
    pools = enumerate_pools(REWARDS[rewards], total)
    found = expected(pools, figures(ESTIMATORS_OF[name], size))
    exact = truth(REWARDS[rewards], ESTIMATORS_OF[name], size)
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-9 * abs(exact).max())


def test_some_subgroups_at_random_say_the_same_on_average(monkeypatch):
    """Of 20 of 126 in all orders of one block: within 4 standard errors."""
    rng, score_ND = np.random.default_rng(0), np.random.default_rng(1).normal(size=(9, 3))
    rewards_N = rng.choice(BONUS, 9)
    estimator = ESTIMATORS_OF["TRL's"]

    def figures_in(order):
        sample = make_sample(rewards_N[order], score_ND[order], np.arange(9))
        return figures(estimator, 4)(sample)

    exact = figures_in(np.arange(9))
    monkeypatch.setattr(subject, "MOST", 20)
    subgroups.cache_clear()
    found = np.array([figures_in(rng.permutation(9)) for _ in range(2000)])
    subgroups.cache_clear()
    error = found.std(0) / np.sqrt(len(found))
    assert (error > 0).all()
    assert (abs(found.mean(0) - exact) < 4 * error).all()


def test_subgroups_at_random_are_whole_and_as_many():
    index_SG = subgroups(16, 5)
    assert index_SG.shape == (1002, 5)  # Three of each permutation.
    assert all(len({*one}) == 5 for one in index_SG.tolist())
    assert subgroups(12, 6).shape == (924, 6)


def test_a_constant_added_to_the_rewards_changes_nothing():
    """Of one block: what is taken off of each reward biases nothing, it spares noise."""
    rng = np.random.default_rng(0)
    rewards_N, score_ND = rng.choice(BONUS, 8), rng.normal(size=(8, 3))
    plain, more = (
        figures(ESTIMATORS_OF["TRL's"], 5)(make_sample(one, score_ND, np.arange(8)))
        for one in (rewards_N, rewards_N + 64)
    )
    np.testing.assert_allclose(plain, more, rtol=1e-6)


@pytest.mark.parametrize("rewards", REWARDS)
@pytest.mark.parametrize(
    ("name", "size", "bias"), [("centred", 5, 1e-9), ("TRL's", 5, 0.2)]
)
def test_the_square_of_the_mean(rewards, name, size, bias):
    """Exact where weights are linear in the rewards; else too large, not too small."""
    found = sum(
        chance * figures_of_block(sample, ESTIMATORS_OF[name], size).norm2
        for chance, sample in enumerate_pools(REWARDS[rewards], 8)
    )
    mean = truth(REWARDS[rewards], ESTIMATORS_OF[name], size)[2:]
    assert 1 - 1e-9 <= found / (mean @ mean) <= 1 + bias


@pytest.mark.parametrize(("first", "size"), [(4, 3), (4, 4), (3, 3)])
def test_blocks_that_are_large_enough_speak(first, size):
    """Of 4 and 5 completions; at groups of 4 the second alone."""
    estimator, found = ESTIMATORS_OF["centred"], np.zeros(3)
    second, inner, *mean = truth(BONUS, estimator, size)
    pools = [[*enumerate_pools(BONUS, total)] for total in (first, 5)]
    for (one_chance, one), (chance, two) in product(*pools):
        said = Samples.of([[one, two]]).figures_of_loss(estimator, size)
        numbers = (said.second_P, said.inner_P, said.norm2_P)
        found += one_chance * chance * np.concatenate(numbers)
    np.testing.assert_allclose(found, [second, inner, np.dot(mean, mean)], rtol=1e-6)


def test_products_between_prompts_by_hand():
    """Of three prompts, one with blocks of 8 and 4, of which 8 tell of groups of 5."""
    rng, estimator = np.random.default_rng(0), ESTIMATORS_OF["TRL's"]
    design = with_bonus(make_design(rng, 3))
    first, second = design.sample(rng, 8), design.sample(rng, 4)
    samples = Samples.of([first[0], first[1], (first[2], second[2])])
    means = [
        one.weighted_sum(figures_of_block(one, estimator, 5).weights_N) for one in first
    ]
    gradients = [first[0].gradient_D, first[1].gradient_D]
    gradients.append((2 * first[2].gradient_D + second[2].gradient_D) / 3)
    found, others = samples.figures_of_loss(estimator, 5), [(1, 2), (0, 2), (0, 1)]
    for kind, left, right in (
        (found.products_P, means, means),
        (found.with_gradients_P, means, gradients),
        (found.of_gradients_P, gradients, means),
    ):
        by_hand = [sum(left[x] @ right[y] for y in others[x]) for x in range(3)]
        np.testing.assert_allclose(kind, by_hand)


@pytest.mark.parametrize("size", [np.inf, 300], ids=["from more", "a set"])
def test_costs_of_graded_rewards_near_the_exact_ones(size):
    """Of 1,000 prompts with 12 completions each, or a set of 300 with 24: within 6%."""
    rng, design = np.random.default_rng(0), with_bonus(population(np.random.default_rng(1)))
    if size == np.inf:
        drawn, whole = design.some(rng, 1000).sample(rng, 12), design
    else:
        whole = choose(design, np.arange(size))
        drawn = list(zip(whole.sample(rng, 12), whole.sample(rng, 12), strict=True))
    table = table_of(Samples.of(drawn), size)
    for completions in (0, 64):
        aims = find_aims(table, TRL, [2, 4, 6, 8, 11, 16])
        found = {size: aim.cost(completions) for size, aim in aims.items()}
        assert [*found] == [2, 4, 6, 8, 11]  # A block of 12 tells groups of 11 at most.
        exact = Truth(whole).costs("grpo-std(eps=0.0001)", found, 8, completions)
        for one, cost in found.items():
            assert cost[0] / found[8][0] == pytest.approx(exact[one], rel=0.06)


def test_a_set_counts_each_prompt_with_itself():
    """Of 6 prompts with 60 blocks each: within 10%, where other pairs are off by 23%."""
    design = choose(with_bonus(population(np.random.default_rng(1))), np.arange(6))
    blocks = [design.sample(np.random.default_rng(at), 12) for at in range(60)]
    samples = Samples.of(zip(*blocks, strict=True))
    [exact] = Truth(design).aim(TRL, 8).signal
    found, of_more = (
        find_aims(table_of(samples, size), TRL, [8])[8].signal[0] for size in (6, np.inf)
    )
    assert found == pytest.approx(exact, rel=0.1)
    assert of_more != pytest.approx(exact, rel=0.2)


def test_what_is_not_known():
    """Lengths, rewards that must be 0 or 1, and a prompt without a block that is enough."""
    rng = np.random.default_rng(0)
    design = with_bonus(make_design(rng, 3))
    table = table_of(Samples.of(design.sample(rng, 8)))
    assert [*find_aims(table, TRL, [2, 7, 8, 16])] == [2, 7]
    for entry in (TRL | {"length": "sequence"}, "maxrl", "opo"):
        assert find_aims(table, entry, [4]) == {}
    few = Samples.of([*design.sample(rng, 8)[:2], design.sample(rng, 4)[2]])
    assert find_aims(table_of(few), TRL, [4]) == {}
