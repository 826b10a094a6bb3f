"""Other estimators over random prompts: against enumeration, and populations known exactly.

Checks of a drawn number ask for four standard errors: false alarm about 1e-4 each. All
seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from enumerated import random_enumerated
from mse_lab.answers.alternatives import (
    LAW_SIZES,
    Seconds,
    Yardstick,
    find_alternatives,
    list_prices,
)
from mse_lab.answers.trainer_settings import TRAINERS_DEFAULT
from mse_lab.estimators import find_estimator
from mse_lab.estimators.objectives import normalise_length
from mse_lab.mse.own_loss import CONSTANT, Aim, Direction
from mse_lab.probe.training import DEFAULT
from populations import choose, population
from simulated import analysed, with_rewards
from truths import Truth

BUDGET = 1024
DEFAULTS_NAME = find_estimator(TRAINERS_DEFAULT).name


def training(run, estimator, size):
    """The run, judging a training with this estimator in groups of this size."""
    setting = DEFAULT._replace(estimator=estimator, group_size=size)
    return replace(run, setting=setting)


@pytest.fixture(scope="module")
def judged(known):
    """Alternatives by name to GRPO-type at 4; lengths are one, so opo-loo is grpo."""
    entries = ["grpo", "opo-loo", "opo", TRAINERS_DEFAULT, "maxrl"]
    run = analysed(known[1], [2, 4, 8, 16], estimators=entries)
    yardstick = Yardstick(training(run, "grpo", 4), BUDGET)
    return yardstick, {one.estimator: one for one in find_alternatives(yardstick)}


def outcomes(policies, estimator, size):
    """Every estimate that a random prompt's group can give, and its probability."""
    estimates, chances = [], []
    for policy in policies:
        types, groups, probability = policy.groups(size)
        weights = estimator.weights(groups)[0] / size
        estimates.append(np.einsum("rg,rgd->rd", weights, policy.scores[types]))
        chances.append(probability / len(policies))
    return np.concatenate(estimates), np.concatenate(chances)


def scale_free_mse(policies, estimator, size, batch):
    """min_a E||a g_hat - g||^2 over all batches of one or two random prompts."""
    gradient = np.mean([policy.gradient for policy in policies], axis=0)
    estimates, chances = outcomes(policies, estimator, size)
    if batch == 2:
        estimates = (estimates[:, None] + estimates) / 2
        chances = chances[:, None] * chances
    assert chances.sum() == pytest.approx(1)

    def error(factor):
        return (chances * ((factor * estimates - gradient) ** 2).sum(-1)).sum()

    return optimize.minimize_scalar(error).fun


def exact_direction(policies, estimator, size):
    """Where an estimator points, all prompts being known."""
    means = np.array([policy.mean_estimate(estimator, size) for policy in policies])
    gradients = np.array([policy.gradient for policy in policies])
    within = [
        policy.mse(estimator, size) - ((mean - policy.gradient) ** 2).sum()
        for policy, mean in zip(policies, means, strict=True)
    ]
    mean, gradient = means.mean(0), gradients.mean(0)
    between = ((means - mean) ** 2).sum(-1).mean()
    cosine2 = (mean @ gradient) ** 2 / (mean @ mean) / (gradient @ gradient)
    figures = (mean @ mean, cosine2, between, np.mean(within))
    return gradient @ gradient, Direction(*(np.array([one]) for one in figures))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", ["grpo-std", "grpo", "maxrl"])
def test_completions_against_enumeration(name, batch):
    """What a batch of groups of three does is what the cost says that it takes.

    The base is an unbiased estimator, or another biased one at another size, whose noise is
    made to give the same scale-free MSE at N = 100.
    """
    rng, estimator = np.random.default_rng(3), find_estimator(name)
    policies = [random_enumerated(rng) for _ in range(3)]
    norm2, direction = exact_direction(policies, estimator, 3)
    error = scale_free_mse(policies, estimator, 3, batch)
    noise = 100 * norm2 * error / (norm2 - error)
    unbiased = Aim(np.array([noise]), np.array([norm2]), np.ones(1))
    aim = Aim.of(direction, 3)
    assert aim.cost(unbiased, 100).item() == pytest.approx(3 * batch / 100, rel=1e-6)
    # A base that points elsewhere: 1 - c^2 / (1 + q / N) of ||g||^2 is its error.
    cosine2, signal = 0.9 * (1 - error / norm2) + 0.1, 2.0
    scale = 100 * (cosine2 / (1 - error / norm2) - 1)
    base = Aim(*(np.array([one]) for one in (scale * signal, signal, cosine2)))
    assert aim.cost(base, 100).item() == pytest.approx(3 * batch / 100, rel=1e-6)


def test_the_trainers_default_against_a_known_population(known, judged):
    """Its cost at its best size within four standard errors of that of 4000 prompts."""
    truth, one = Truth(known[0]), judged[1][DEFAULTS_NAME]

    def exact_cost(size):
        aim = truth.aim("grpo-std", size)
        return aim.cost(truth.aim("grpo", 4), BUDGET).item()

    error = (one.cost.high - one.cost.low) / (2 * 1.96)
    assert abs(one.cost.value - exact_cost(one.group_size)) < 4 * error
    best = min(range(2, 33), key=exact_cost)
    assert best / 2 <= one.group_size <= 2 * best
    assert error < 0.1


def test_by_replicates_as_by_the_law(known, judged):
    """`opo-loo` is GRPO-type where all lengths are one, judged on groups as it comes."""
    one, found = judged[1]["opo-loo"], known[2]
    assert one.group_size in (2, 4, 8, 16)
    truth = found.row(one.group_size).cost.value / found.row(4).cost.value
    assert one.cost.low < truth < one.cost.high
    assert one.cost.value == pytest.approx(truth, rel=0.1)
    assert one.cost.value == pytest.approx(judged[1]["grpo"].cost.value, rel=0.1)


def test_a_factor_costs_nothing(judged):
    """`centred` is GRPO-type times (G-1)/G; a batch's spread is one factor, too."""
    run = judged[0].run
    for entry in ("centred", {"name": "batch-std", "eps": 1e-4, "length": "token-batch"}):
        other = Yardstick(training(run, entry, 4), BUDGET)
        assert other.price_of_own(8) == judged[0].price_of_own(8)


def test_constant_baselines_by_hand(known, judged):
    """(c1 + c) over c1 G + c2 + c3/(G-1) at G = 4."""
    found, grpo = known[2], 4 * known[2].c1.value + known[2].c2.value
    grpo += known[2].c3.value / 3
    for name in ("vanilla", "batch_mean", "best_constant"):
        one = judged[1][name.replace("_", "-")]
        cost = (found.c1.value + getattr(found, name).value) / grpo
        assert (one.group_size, one.cost.value) == (1, pytest.approx(cost))


def test_which_are_unbiased(judged):
    """As the registry has them; a constant baseline is, whoever may know it."""
    found = {name: one.unbiased for name, one in judged[1].items()}
    assert not found[DEFAULTS_NAME]
    assert {name for name, unbiased in found.items() if unbiased} == {*CONSTANT} | {
        "grpo",
        "best-constant-loo",
        "opo-loo",
    }


def test_the_cheapest_comes_first_and_what_has_no_law_is_left_out(judged):
    _, found = judged
    costs = [one.cost.value for one in found.values()]
    assert costs == sorted(costs)
    assert {"best-constant-loo", "maxrl", "grpo"} <= {*found}
    assert not {"oracle", "opo"} & {*found}


def without_common_gradient():
    rng = np.random.default_rng(6)
    design = population(rng, shared=0.0)
    pools = choose(design, rng.integers(0, design.prompts, 60)).draw(rng, 256, 2, 16)
    return analysed(pools, [4])


def test_biased_ones_need_a_gradient():
    """Without a common gradient nothing is claimed of what turns the mean."""
    found = find_alternatives(Yardstick(without_common_gradient(), BUDGET))
    costs = {one.estimator: one.cost for one in found}
    assert math.isnan(costs[DEFAULTS_NAME].value)
    assert found[-1].estimator == DEFAULTS_NAME
    assert np.isfinite([costs["vanilla"], costs["best-constant-loo"]]).all()


def test_where_the_users_loss_is_not_known_prices_are_over_grpo_type():
    run = without_common_gradient()
    yardstick = Yardstick(run, BUDGET)
    prices = list_prices(yardstick, find_alternatives(yardstick), [4])
    assert prices[0][:3] == ("yours", "grpo", 8)
    grpo = Yardstick(training(run, "grpo", 8), BUDGET)
    assert prices[1].cost == grpo.price_of_own(4)


def test_the_price_list(judged):
    """Yours, the same loss elsewhere, the trainer's best, the best; each once."""
    run = training(judged[0].run, DEFAULT.estimator, 8)
    yardstick = Yardstick(run, BUDGET)
    found = find_alternatives(yardstick)
    prices = list_prices(yardstick, found, [8, 16, 4])
    assert [one.whose for one in prices[:3]] == ["yours", "same loss", "same loss"]
    assert [one.group_size for one in prices[:3]] == [8, 16, 4]
    assert prices[0].cost == (1, 1, 1)
    assert {one.estimator for one in prices[:3]} == {DEFAULTS_NAME}
    usable = [one for one in found if one.estimator != "best-constant"]
    assert prices[-1][1:4] == usable[0][:3]
    of_trl = [one for one in usable if one.estimator in ("grpo", DEFAULTS_NAME)]
    expected = of_trl[0][:2]
    assert expected in [one[1:3] for one in prices]
    assert len({one[1:3] for one in prices}) == len(prices)
    assert {one.time for one in prices} == {None}


def test_prices_in_time_by_hand(judged):
    """1 s a completion and 8 s a prompt: 2 s each at G = 8, 3 s each at 4."""
    yardstick = Yardstick(training(judged[0].run, "grpo", 8), BUDGET)
    _, four = list_prices(yardstick, [], [4], Seconds(1.0, 8.0))
    assert four.time == pytest.approx([1.5 * end for end in four.cost])


def test_rewards_other_than_0_and_1_have_no_laws(known):
    graded = with_rewards(known[1], lambda one: 0.5 * one)
    found = find_alternatives(Yardstick(analysed(graded, [4, 16]), BUDGET))
    assert DEFAULTS_NAME not in {one.estimator for one in found}


def test_a_batch_s_tokens_are_one_factor(known):
    """Against the mean over groups: the scale-free MSE of 100 prompts within one percent.

    Lengths follow the rewards. Paired, so that 500 batches are enough; over the tokens of
    the group, which is a factor a prompt, it is another one.
    """
    design, rng = known[0], np.random.default_rng(5)
    batches, prompts, size = 500, 100, 4
    drawn = choose(design, rng.integers(0, design.prompts, batches * prompts))
    scores, rewards = drawn._pick(rng, size)
    lengths = 1 + (3 * rewards).astype(int) + rng.integers(0, 3, rewards.shape)
    spread = rewards.std(-1, keepdims=True)
    centred = rewards - rewards.mean(-1, keepdims=True)
    weights = np.divide(centred, spread, out=np.zeros_like(rewards), where=spread > 0)
    gradient = design.gradient_PD.mean(0)

    def error(length):
        shape = (batches, prompts, 1, size)
        normalised = [
            normalise_length(one, own, length)
            for one, own in zip(weights.reshape(shape), lengths.reshape(shape), strict=True)
        ]
        estimates = np.einsum("pn,pnd->pd", np.reshape(normalised, (-1, size)), scores)
        means = estimates.reshape(batches, prompts, -1).mean(1)
        inner = (means @ gradient).mean()
        return gradient @ gradient - inner**2 / (means**2).sum(-1).mean()

    assert error("token-batch") == pytest.approx(error("none"), rel=0.01)
    assert abs(error("token") / error("none") - 1) > 0.01


def test_laws_are_evaluated_at_sizes_next_to_one_another():
    """No best size is further than a quarter from one of them; powers of two are theirs."""
    sizes = np.array(LAW_SIZES)
    assert set(range(2, 9)) | {2**power for power in range(1, 8)} <= set(LAW_SIZES)
    assert (np.diff(sizes) > 0).all()
    assert (sizes[1:] <= 1.5 * sizes[:-1]).all()
