"""The verdict on a group size: by hand arithmetic, and on known populations."""

import math

import numpy as np
import pytest

from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.regret import regret_bounds
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import bound_by_sequence, sequence_bounds
from mse_lab.mse.verdict import (
    Question,
    Ratios,
    bound_by_intervals,
    decide,
    find_ratios,
    is_settled,
    price_sizes,
    prompts_needed,
    rule,
)
from mse_lab.probe.training import DEFAULT
from populations import KnownPopulation, choose, population

LEVEL = 0.95
COSTS = {4: 0.8, 8: 1.0, 16: 1.5}


def ratios(factor, costs=COSTS):
    """Each ratio of costs is known up to a factor."""
    values = np.array([*costs.values()])
    upper_KK = factor * values[:, None] / values
    np.fill_diagonal(upper_KK, 1)
    return Ratios(costs, upper_KK, own=True)


@pytest.mark.parametrize(
    ("factor", "present", "verdict", "set_to"),
    [
        # 8 costs 25% more than 4: by a factor of 1.04 at least 20.2% and at most 30%.
        (1.04, 8, "change", 4),
        (1.04, 4, "keep", 4),
        # By 1.19 at least 5.04%, but nothing shows that no size is better than 4: 16 may
        # cost 1.19 * 0.8 / 1.5 of it, less than one.
        (1.19, 8, "change", 4),
        (1.2, 8, "cannot tell", 8),  # At least 4.2%.
        (1.04, 64, "cannot tell", 64),  # Not compared.
    ],
)
def test_by_hand(factor, present, verdict, set_to):
    found = rule(ratios(factor), Question(present=present))
    assert (found.verdict, found.set_to) == (verdict, set_to)
    assert found.best == 4


def test_what_a_change_saves_by_hand():
    """20%; at least 1 - 1.04 * 0.8, at most 1 - 0.8 / 1.04."""
    found = rule(ratios(1.04), Question())
    assert found.saves == pytest.approx((0.2, 0.168, 1 - 0.8 / 1.04))
    assert (found.at_least, found.at_most) == pytest.approx((1.25 / 1.04 - 1, 0.3))
    assert is_settled(found, 0.05)
    assert rule(ratios(1.04), Question(present=4)).saves == Estimate(0, 0, 0)
    assert rule(ratios(1.2), Question()).saves is None


def test_another_regret_may_be_all_right():
    assert rule(ratios(1.04), Question(tolerance=0.31)).verdict == "keep"
    assert rule(ratios(1.04), Question(tolerance=0.29)).verdict == "cannot tell"


@pytest.mark.parametrize(("factor", "verdict"), [(1.04, "change"), (1.19, "cannot tell")])
def test_a_size_that_is_not_shown_to_be_near_the_best_must_save(factor, verdict):
    """4 costs 0.79 of 8, and may cost 5.3%, or 21%, more than 3, which nobody would set.

    Yet by a factor of 1.04 it is at most 0.822 of 8; by 1.19 0.940, which is not 1/1.07.
    """
    costs = {3: 0.78, **COSTS, 4: 0.79}
    tolerance = 0.05 if verdict == "change" else 0.07
    found = rule(ratios(factor, costs), Question(tolerance=tolerance))
    assert found.regret == pytest.approx(factor * 0.79 / 0.78 - 1)
    assert found.regret > tolerance
    assert found.at_least > tolerance
    assert (found.verdict, found.best) == (verdict, 4)
    assert not is_settled(found, tolerance)


def test_the_present_size_counts_as_one_that_is_set():
    costs = {11: 0.97, 16: 1.0, 32: 1.5}
    found = rule(ratios(1.001, costs), Question(present=11))
    assert (found.verdict, found.set_to, found.best) == ("keep", 11, 11)


def test_a_finished_run_has_the_bounds_of_its_intervals(known):
    drawn = Population(known[1])
    priced = price_sizes(drawn, Question("grpo", 4), binary=True)
    found = find_ratios(priced, bound_by_intervals(drawn, LEVEL))
    assert found.own
    assert found.bounds == pytest.approx(regret_bounds(drawn, LEVEL))
    more = find_ratios(priced, bound_by_intervals(drawn, LEVEL, 4 * drawn.pools.prompts))
    logs, narrower = np.log(found.upper_KK), np.log(more.upper_KK)
    costs = np.log([*found.costs.values()])
    apart = costs[:, None] - costs
    assert narrower - apart == pytest.approx((logs - apart) / 2)


def test_the_users_loss_is_priced_by_its_law_or_grpo_types_is_used(known):
    """Graded rewards have no law, nor has what divides by a completion's length."""
    drawn = Population(known[1])
    std = {"name": "grpo-std", "eps": 1e-4}
    by_length = std | {"length": "sequence"}
    own = {
        "binary": price_sizes(drawn, Question(std), binary=True),
        "graded": price_sizes(drawn, Question(std), binary=False),
        "by length": price_sizes(drawn, Question(by_length), binary=True),
        "unknown": price_sizes(drawn, Question(None), binary=True),
    }
    assert {name for name, priced in own.items() if priced.own} == {"binary"}
    bound = bound_by_intervals(drawn, LEVEL)
    assert find_ratios(own["binary"], bound).own
    fallen_back = find_ratios(own["graded"], bound)
    assert not fallen_back.own
    assert fallen_back.costs == find_ratios(own["unknown"], bound).costs


def test_a_constant_baseline_is_best_alone():
    """c1 G + c, least at G = 1: at 8 it costs (8 + 3) / (1 + 3) times as much."""
    known = KnownPopulation(1.0, 2.0, 9.0, vanilla=3.0)
    priced = price_sizes(known, Question("vanilla", 8), binary=False)
    at = {size: cost.item() for size, cost in priced.own.items()}
    assert at[1] == pytest.approx(4 / 11)
    assert at[8] == 1
    assert min(at, key=at.get) == 1


def test_how_many_prompts_hardly_tell():
    """Bounds that narrow with the root of their number would tell at 303, not at 202."""

    def bound(prompts):
        return lambda costs, own: ratios(1.2 ** math.sqrt(200 / prompts)).upper_KK

    grpo = {size: np.array([cost]) for size, cost in COSTS.items()}
    priced = price_sizes(KnownPopulation(1, 2, 9), Question("grpo"), binary=True)
    priced = priced._replace(grpo=grpo)
    assert prompts_needed(priced, Question("grpo"), bound, 60) == 303 // 2
    assert prompts_needed(priced, Question("grpo"), bound, 160) == 160
    at_the_edge = {4: np.array([1 / 1.05]), 8: np.array([1.0]), 16: np.array([1.5])}
    edge = {size: cost.item() for size, cost in at_the_edge.items()}

    def undecided(prompts):
        return lambda costs, own: ratios(1 + 1 / prompts, edge).upper_KK

    priced = priced._replace(grpo=at_the_edge)
    assert prompts_needed(priced, Question("grpo"), undecided, 60) is None


def drawn(prompts, completions=16):
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return [(one,) for one in choose(design, index).sample(rng, completions)]


@pytest.mark.parametrize(
    ("present", "verdict", "set_to"), [(4, "keep", 4), (5, "keep", 5), (64, "change", 4)]
)
@pytest.mark.parametrize("entry", ["grpo", DEFAULT.estimator])
def test_it_stops_for_a_verdict_on_the_present_size(entry, present, verdict, set_to):
    """The exact regret of 4, 5 and 64 is 0, 2 and more than 100% in either loss."""
    found = decide(drawn(400), Question(entry, present))
    assert (found.ruling.verdict, found.ruling.set_to) == (verdict, set_to)
    assert found.stop == "regret"
    # A law of 16 completions each ends at groups of 13.
    assert found.ruling.own_loss == (entry == "grpo" or present < 13)


def test_few_completions_wait_for_the_law_of_the_users_loss():
    """Of 8 completions each the law of groups of 8 is not known, and of 16 it is."""
    prompts = drawn(200, completions=8)
    asked = Question(present=64), Question(present=8), Question("grpo", 64)
    stops = [decide(prompts, question, awaited=16).stop for question in asked]
    assert stops == ["regret", None, "regret"]
    # 16 completions tell groups of 13 at most.
    for present, stop in {13: None, 14: "regret"}.items():
        assert decide(prompts, Question(present=present), awaited=16).stop == stop
    ended = decide(prompts, Question(present=8), awaited=8)
    assert ended.stop == "regret"
    assert not ended.ruling.own_loss


def test_bounds_of_any_loss_are_those_of_grpo_type():
    """By the route of c1, c2 and c3, whose sums the costs are."""
    known = Population(Samples.of(drawn(100)))
    priced = price_sizes(known, Question("grpo", 4), binary=True)
    ratios = find_ratios(priced, bound_by_sequence(known, LEVEL))
    assert ratios.bounds == pytest.approx(sequence_bounds(known, LEVEL))
    more = find_ratios(priced, bound_by_sequence(known, LEVEL, 1000))
    assert (more.upper_KK <= ratios.upper_KK + 1e-12).all()
    assert more.upper_KK[0, -1] < ratios.upper_KK[0, -1]
