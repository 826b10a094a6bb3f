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
    CONSTANT,
    LAW_SIZES,
    TRAINERS_DEFAULT,
    Alternative,
    Yardstick,
    _law_directions,
    find_alternatives,
    judge_on_prompts,
    price_default,
)
from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.estimators.length import normalise_length
from mse_lab.mse.budget import Constants
from mse_lab.mse.directions import Direction, efficiency
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.laws import find_law
from mse_lab.mse.replicates import Key, measure_errors
from populations import choose, population
from simulated import analysed, make_design

BUDGET = 1024
STANDARDISED = find_estimator("grpo-std")


@pytest.fixture(scope="module")
def judged(known):
    """Alternatives by name, and the yardstick; lengths are one, so opo-loo is grpo."""
    entries = ["grpo", "opo-loo", "opo", TRAINERS_DEFAULT, "maxrl"]
    yardstick = Yardstick(analysed(known[1], [2, 4, 8, 16], estimators=entries), 4, BUDGET)
    found, singles = find_alternatives(yardstick)
    return yardstick, {one.estimator: one for one in found}, singles


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
    """What a batch of groups of three does is what `efficiency` says that it takes.

    An unbiased estimator whose N MSE is made to give the same scale-free MSE at N = 100.
    """
    rng, estimator = np.random.default_rng(3), find_estimator(name)
    policies = [random_enumerated(rng) for _ in range(3)]
    norm2, direction = exact_direction(policies, estimator, 3)
    error = scale_free_mse(policies, estimator, 3, batch)
    cost = 100 * norm2 * error / (norm2 - error)
    unknown = dict.fromkeys(Constants._fields, np.array([math.nan]))
    one = Constants(**unknown | {"gradient2": np.array([norm2])})
    found = efficiency(one, direction, 3, np.array([cost]), 100).item()
    assert found == pytest.approx(100 / (3 * batch), rel=1e-6)


def test_the_trainers_default_against_a_known_population(known, judged):
    """Its cost at its best size within four standard errors of that of 4000 prompts."""
    design = known[0]
    one = judged[1][find_estimator(TRAINERS_DEFAULT).name]
    moments, gradients = design.moments(), design.gradient_PD

    def exact_cost(size):
        law = find_law(STANDARDISED, size, binary=True)(moments)
        mean = (law.slope[:, None] * gradients).mean(0)
        gradient = gradients.mean(0)
        within = (law.second - law.slope**2 * moments.gradient2).mean()
        spread = ((law.slope[:, None] * gradients - mean) ** 2).sum(-1).mean()
        between = ((gradients - gradient) ** 2).sum(-1).mean()
        grpo = between * 4 + moments.trace_oracle.mean() + moments.zeta.mean() / 3
        norm2 = np.array([gradient @ gradient])
        unknown = dict.fromkeys(Constants._fields, np.array([math.nan]))
        constants = Constants(**unknown | {"gradient2": norm2})
        cosine2 = (mean @ gradient) ** 2 / (mean @ mean) / norm2.item()
        figures = (mean @ mean, cosine2, spread, within)
        direction = Direction(*(np.array([figure]) for figure in figures))
        return 1 / efficiency(constants, direction, size, np.array([grpo]), BUDGET).item()

    error = (one.cost.high - one.cost.low) / (2 * 1.96)
    assert abs(one.cost.value - exact_cost(one.group_size)) < 4 * error
    best = min(range(2, 33), key=exact_cost)
    assert best / 2 <= one.group_size <= 2 * best
    assert error < 0.1


def test_by_replicates_as_by_the_law(known, judged):
    """`opo-loo` is GRPO-type where all lengths are one, judged on groups as it comes."""
    one, found = judged[1]["opo-loo"], known[2]
    assert one.group_size in (2, 4, 8, 16)
    truth = found.row(one.group_size).cost
    recommended = found.row(4).cost.value
    assert one.cost.low < truth.value / recommended < one.cost.high
    assert one.cost.value == pytest.approx(truth.value / recommended, rel=0.1)


def test_a_factor_costs_nothing(judged):
    """`centred` is GRPO-type times (G-1)/G."""
    yardstick, centred = judged[0], find_estimator("centred")
    at = _law_directions(centred, yardstick.run)
    judged_at = yardstick.judge_directions(centred, {4: at[4]})
    assert judged_at.cost == pytest.approx((1, 1, 1), abs=1e-9)


def test_the_trainers_default_at_three_is_a_factor(judged):
    """Groups of three whose rewards differ have one standard deviation."""
    cost = price_default(judged[0].run, 3, BUDGET)
    assert cost == pytest.approx((1, 1, 1), abs=1e-9)


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
    standardised, expected = find_estimator(TRAINERS_DEFAULT).name, {*CONSTANT}
    assert not found[standardised]
    assert {name for name, unbiased in found.items() if unbiased} == expected | {
        "best-constant-loo",
        "opo-loo",
    }


def test_the_cheapest_comes_first_and_the_rest_apart(judged):
    _, found, singles = judged
    costs = [one.cost.value for one in found.values()]
    assert costs == sorted(costs)
    assert {"best-constant-loo", "maxrl"} <= {*found}
    assert not {"grpo", "oracle", "opo"} & {*found}
    [opo] = singles
    assert opo.estimator == "opo"
    assert 50 <= opo.prompts <= 60
    assert 0.5 < opo.ratio < 2


def test_biased_ones_need_a_gradient(known):
    """Without a common gradient nothing is claimed of what turns the mean."""
    rng = np.random.default_rng(6)
    design = population(rng, shared=0.0)
    pools = choose(design, rng.integers(0, design.prompts, 60)).draw(rng, 256, 2, 16)
    found, _ = find_alternatives(Yardstick(analysed(pools, [4]), 4, BUDGET))
    costs = {one.estimator: one.cost for one in found}
    assert math.isnan(costs[find_estimator(TRAINERS_DEFAULT).name].value)
    assert found[-1].estimator == find_estimator(TRAINERS_DEFAULT).name
    assert np.isfinite([costs["vanilla"], costs["best-constant-loo"]]).all()


def test_rewards_other_than_0_and_1_have_no_laws(known):
    """The default is then judged on single prompts, with its lengths."""
    pools = known[1]
    graded = replace(
        pools,
        rewards_PN=pools.rewards_PN * 0.5,
        reference_rewards_PN=pools.reference_rewards_PN * 0.5,
    )
    found, [default] = find_alternatives(Yardstick(analysed(graded, [4, 16]), 4, BUDGET))
    assert default.estimator == find_estimator(TRAINERS_DEFAULT).name
    assert default.estimator not in {one.estimator for one in found}


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


class Wider(Yardstick):
    """Costs of which the larger ones have the lower ends."""

    def judge_constant(self, name):
        place = CONSTANT[::-1].index(name)
        return Alternative(name, 1, Estimate(1 + place, 1 - place / 4, 9))


def test_the_cheapest_by_the_estimate_comes_first_whatever_its_interval(judged):
    found, _ = find_alternatives(Wider(judged[0].run, 4, BUDGET))
    named = [one.estimator for one in found if one.estimator in CONSTANT]
    assert named == list(CONSTANT[::-1])


def test_a_median_over_prompts_by_hand():
    """Ratios to GRPO-type, of prompts where both are known and its is positive."""
    rng = np.random.default_rng(1)
    pools = make_design(rng, 12).draw(rng, 256, 2, 32)
    run = analysed(pools, [2, 4, 8, 16, 32], resamples=200)
    both = [ESTIMATORS["grpo"], ESTIMATORS["opo"]]
    [row] = judge_on_prompts(both[1], run)
    size = row.group_size
    errors = measure_errors(run.pools, both, [size])
    grpo, own = (
        run.curves.of_prompts(one, size, errors[Key(one.name, size)]).scale_free_mse
        for one in both
    )
    ratios = [own[x] / grpo[x] for x in range(12) if grpo[x] > 0 and own[x] == own[x]]
    assert row.prompts == len(ratios)
    assert row.ratio == pytest.approx(np.median(ratios))
