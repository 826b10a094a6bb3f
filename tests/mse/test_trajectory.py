"""A trajectory: does a figure move, and what is best for all of it?"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multivariate import test_mvmean as hotelling

from benchmarks.along_levels import checkpoints
from benchmarks.truths import Truth
from mse_lab.mse.budget import Constants, Population, mse_times_budget
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.trajectory import Trajectory, _least, best_ratio, measure_movement
from populations import choose

RUNS, PROMPTS, LEVEL = 80, 40, 0.95


def mean_of(values_P):
    return Statistic(float(values_P.mean()), {"prompts": values_P[None]}, {})


def test_of_two_checkpoints_it_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 12)) + 3 * rng.normal(size=12)
    found = measure_movement([mean_of(first), mean_of(second)], np.inf)
    expected = stats.ttest_rel(first, second)
    assert found.statistic == pytest.approx(expected.statistic**2)
    assert found.p_value == pytest.approx(expected.pvalue)


def test_of_more_it_is_hotellings():
    values_TP = np.random.default_rng(1).normal(size=(4, 15)) * [[1.0], [2], [3], [4]]
    found = measure_movement([mean_of(one) for one in values_TP], np.inf)
    expected = hotelling((values_TP[1:] - values_TP[0]).T)
    assert found.statistic == pytest.approx(expected.t2)
    assert found.p_value == pytest.approx(expected.pvalue)
    # Which checkpoint the others are set against does not matter.
    turned = measure_movement([mean_of(one) for one in values_TP[::-1]], np.inf)
    assert turned.p_value == pytest.approx(found.p_value)


def test_fewer_degrees_are_a_larger_p_value():
    values_TP = np.random.default_rng(2).normal([[0.0], [0.5], [1]], size=(3, 30))
    each = [mean_of(one) for one in values_TP]
    found = measure_movement(each, np.inf)
    # By hand: Q 9 / (10 2) is F with 2 and 9 degrees.
    expected = stats.f.sf(found.statistic * 9 / 20, 2, 9)
    assert measure_movement(each, 10.0).p_value == pytest.approx(expected)
    assert expected > found.p_value
    assert np.isnan(measure_movement(each, 1.0).p_value)


def test_what_is_known_to_stand_still_and_what_is_not_known():
    same = mean_of(np.arange(5.0))
    assert measure_movement([same, same], np.inf).p_value == 1.0
    found = measure_movement([same, replace(same, value=np.nan)], np.inf)
    assert np.isnan(found.p_value)
    assert found.differences == 1


designs = cache(checkpoints)


def draw(rng, moving, prompts=PROMPTS):
    """The same prompts at every checkpoint."""
    index = rng.integers(0, designs(moving)[0].prompts, prompts)
    return [Population(choose(one, index).draw(rng, 256, 2, 4)) for one in designs(moving)]


def exact_cost(moving, sizes):
    return np.array(
        [mse_times_budget("grpo", Truth(one).constants, sizes) for one in designs(moving)]
    )


@cache
def simulated(moving):
    """Of each run the p-value, G* of the whole, its cost at G = 8, what switching saves."""
    rng, found = np.random.default_rng(4), []
    for _ in range(RUNS):
        populations = draw(rng, moving)
        whole = Trajectory.of(populations)
        logs = [one.statistic(lambda one: np.log(best_ratio([one]))) for one in populations]
        movement = measure_movement(logs, whole.effective_prompts)
        found.append(
            (
                movement.p_value,
                whole.best_group_size(LEVEL),
                whole.cost(8, LEVEL),
                whole.saved_by_switching(LEVEL),
            )
        )
    return list(zip(*found, strict=True))


def share_between(expected_low, expected_high, count):
    """Whether a count of RUNS fits a share between two; a false alarm of 1e-4 on a side."""
    low = stats.binom.ppf(1e-4, RUNS, expected_low)
    return low <= count <= stats.binom.isf(1e-4, RUNS, expected_high)


def test_a_best_size_that_stands_still_is_seldom_said_to_move():
    """At 5%; the degrees that prompts carry make it rather less."""
    p_values = np.array(simulated(False)[0])
    assert share_between(0.01, 0.05, (p_values < 0.05).sum())


def test_one_that_moves_is_seen_to():
    p_values = np.array(simulated(True)[0])
    assert (p_values < 0.05).mean() > 0.9


@pytest.mark.parametrize("moving", [False, True])
def test_the_intervals_of_a_whole_trajectory_cover_the_truth(moving):
    exact, sizes = exact_cost(moving, np.geomspace(2, 64, 9999)), np.array([8.0])
    known = [Truth(one).constants for one in designs(moving)]
    between, _, pairs = np.sum(known, axis=0)[:3, 0]
    least = exact.sum(0).min()
    truths = (
        1 + np.sqrt(pairs / between),
        exact_cost(moving, sizes).sum() / least,
        1 - exact.min(1).sum() / least,
    )
    for truth, intervals in zip(truths, simulated(moving)[1:], strict=True):
        covered = sum(one.low <= truth <= one.high for one in intervals)
        assert share_between(0.91, 0.99, covered), (truth, covered)
    saved = np.array([one.value for one in simulated(moving)[3]])
    # Four standard errors, and a tenth of what is to be saved for its second-order bias.
    reach = 4 * saved.std() / np.sqrt(RUNS) + truths[2] / 10
    assert abs(saved.mean() - truths[2]) < reach


def test_what_switching_costs_is_not_claimed_where_the_best_size_stands_still():
    """It saves nothing; by the jackknife's own spread 14 of these runs claim a loss."""
    rng, runs = np.random.default_rng(9), 150
    wholes = (Trajectory.of(draw(rng, False, prompts=100)) for _ in range(runs))
    below = sum(one.saved_by_switching(LEVEL).high < 0 for one in wholes)
    # Were it one in a hundred: a false alarm of 1e-4.
    assert below <= stats.binom.isf(1e-4, runs, 0.01)


def test_prompts_in_common_make_differences_sharper():
    """Against prompts drawn anew at each checkpoint, of which nothing is paired."""
    rng = np.random.default_rng(5)
    first, second, _ = (
        one.statistic(lambda one: np.log(best_ratio([one]))) for one in draw(rng, True)
    )
    apart = replace(second, groups={"others": second.groups["prompts"]})
    assert (first - second).error < 0.75 * (first - apart).error


def test_a_prompt_is_left_out_of_all_checkpoints_at_once():
    """The figure of the whole, with and without each prompt, by hand."""
    populations = draw(np.random.default_rng(6), True)
    found = Trajectory.of(populations).statistic(lambda *each: best_ratio(each))

    def ratio(parts):
        between, pairs = (sum(getattr(one, name) for one in parts) for name in ("c1", "c3"))
        return between / pairs

    whole, *others = ratio([one.samples for one in populations])
    assert found.value == pytest.approx(whole)
    np.testing.assert_allclose(
        found.groups["prompts"][0], (PROMPTS - 1) * (whole - np.array(others)), rtol=1e-9
    )


def test_the_checkpoint_that_fewest_prompts_carry_tells_how_many():
    populations = draw(np.random.default_rng(8), True)
    each = [one.effective_prompts for one in populations]
    assert max(each) > min(each)
    assert Trajectory.of(populations).effective_prompts == min(each)
    assert Trajectory.of(populations[::-1]).effective_prompts == min(each)


def test_one_checkpoint_alone_is_its_population():
    [own, *_] = draw(np.random.default_rng(7), False)
    whole = Trajectory.of([own])
    assert whole.best_group_size(LEVEL) == pytest.approx(own.best_group_size(LEVEL))
    cost = mse_times_budget("grpo", own.constants, 8).item()
    least = mse_times_budget("grpo", own.constants, own.best_group_size(LEVEL).value).item()
    assert whole.cost(8, LEVEL).value == pytest.approx(cost / least, rel=1e-3)
    assert whole.saved_by_switching(LEVEL).value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "between", [(-1.0, -2.0), (0.0, 0.0), (1e-5, 2e-5), (1.0, -0.5), (9, 1)]
)
@pytest.mark.parametrize("pairs", [(1.0, 3.0), (-1.0, 0.0)])
def test_the_least_cost_is_that_of_the_best_of_all_sizes(between, pairs):
    """Also where c1 or c3 is estimated at zero or below: then at the last or first size."""
    each = [
        Constants(*map(np.array, ([c1], [2.0], [c3], *[[1.0]] * 4)))
        for c1, c3 in zip(between, pairs, strict=True)
    ]
    sizes = np.geomspace(2, 1024, 4001)
    cost = sum(mse_times_budget("grpo", one, sizes) for one in each)
    np.testing.assert_allclose(_least(each), [cost.min()], rtol=1e-5)


@pytest.mark.parametrize("unknown", [0, -1])
def test_the_best_size_is_of_positive_constants_only_if_all_are_known(monkeypatch, unknown):
    """The trajectory is its first checkpoint, with the others beside it."""
    whole = Trajectory.of(draw(np.random.default_rng(0), moving=True))
    doubtful = [whole, *whole.others][unknown]
    monkeypatch.setattr(Population, "knows_c1", lambda one, _: one is not doubtful)
    monkeypatch.setattr(Trajectory, "estimate_positive", None)
    assert whole.best_group_size(LEVEL).high > 1
    monkeypatch.setattr(Population, "knows_c1", lambda *_: True)
    with pytest.raises(TypeError):
        whole.best_group_size(LEVEL)
