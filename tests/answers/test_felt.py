"""What training feels, from forms that are known exactly."""

import math

import numpy as np
import pytest

from exact_forms import Prompt, exact_forms, felt_of
from mse_lab.answers.felt import feel
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.metric_forms import Forms
from mse_lab.studies.theory.bandit import opposed, worded

HALF = 8


def pools_of(prompts, kind="curvature", optimizer=None):
    metric = np.eye(len(prompts[0].gradient))
    kind, state = f'"{kind}"', f'"{optimizer}"' if optimizer else "null"
    return MetricPools(
        settings=f'{{"kind": {kind}, "optimizer": {state}}}',
        prompts_P=np.arange(len(prompts)),
        trained=len(prompts),
        half=HALF,
        curved=exact_forms(prompts, HALF),
        first=exact_forms(prompts, HALF, metric),
    )


def bandit_prompts(words):
    """Eight prompts of a bandit at its maximum, with words that the reward does not see."""
    bandit = opposed([0.8] * 4, [0.0] * 4, 6)
    theta = np.append(bandit.maximum_D, np.zeros(words))
    spoken = worded(bandit, words) if words else bandit
    point = spoken.at(theta)
    parts = (point.probabilities_PK, spoken.rewards_PK, point.scores_PKD)
    return [Prompt.made(*one) for one in zip(*parts, strict=True)]


def test_words_change_the_plain_size_and_nothing_that_is_felt():
    silent, spoken = (feel(pools_of(bandit_prompts(n)), 4, 0.95) for n in (0, 8))
    assert spoken.best_first_order.value > 1.1 * silent.best_first_order.value
    for name in ("c1", "c2", "c3", "best", "best_in_training", "cost_of_plain"):
        one, other = getattr(silent, name), getattr(spoken, name)
        np.testing.assert_allclose(other, one, rtol=1e-7)
    assert spoken.recommended == silent.recommended


def test_own_prompts_are_told_from_others():
    """All pairs cost 1, but those of a prompt with itself 3."""
    ones, zeros = np.ones((4, 4)), np.zeros((4, 4))
    forms = Forms(zeros, ones, ones + 2 * np.eye(4), zeros, zeros, zeros)
    first = Forms(*(part[:1] for part in vars(forms).values()))
    settings = '{"kind": "adam", "optimizer": "out"}'
    pools = MetricPools(
        settings=settings, prompts_P=np.arange(4), trained=4, half=HALF, curved=forms,
        first=first,
    )  # fmt: skip
    felt = feel(pools, 4, 0.95)
    assert felt.own == pytest.approx(3)
    assert felt.metric == "optimizer"
    assert felt.c3.value == pytest.approx(1)
    # Of four trained prompts every fourth meets its own: c3 is 3/2.
    trained = pools.felt_in_training.constants
    assert trained == pytest.approx((0, HALF - 1.5 / (HALF - 1), 1.5))
    assert math.isinf(felt.best.value)  # No c1.


def test_what_the_plain_size_costs_is_over_the_felt_one():
    pools = pools_of(bandit_prompts(0))
    felt = feel(pools, 64, 0.95)
    assert felt.recommended < 64
    costs = [pools.felt.cost(size).value for size in (64, felt.recommended)]
    assert felt.cost_of_plain.value == pytest.approx(costs[0] / costs[1])
    assert felt.cost_of_plain.value > 1.5


@pytest.mark.parametrize(
    ("low", "high", "known"),
    [(1.0, math.inf, False), (1.0, 6.0, True), (1.5, math.inf, True), (2.5, 3.6, True)],
)
def test_a_size_is_known_where_its_interval_has_an_end(low, high, known):
    assert felt_of(best=Estimate(3.0, low, high)).is_known == known


def test_nothing_is_recommended_where_noise_costs_nothing():
    prompts = bandit_prompts(0)
    pools = pools_of(prompts)
    flipped = Forms(*(-part for part in vars(pools.curved).values()))
    felt = feel(MetricPools(**{**vars(pools), "curved": flipped}), 4, 0.95)
    assert felt.recommended is None
    assert math.isnan(felt.cost_of_plain.value)
    assert math.isnan(felt.best.value)
    assert felt.helps == pytest.approx(1)
    assert math.isnan(felt.own)
