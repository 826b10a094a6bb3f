"""Verdicts of a simulated study: true, false, vanilla, and too small a step."""

import pytest

from mse_lab.answers.training_verdict import curve_of, judge_study, mean_interval
from simulated_study import SIZES, STUDY, predict, simulate

RIGHT, WRONG = predict(4), predict(39)


@pytest.fixture(scope="module")
def verdict():
    return judge_study(STUDY, simulate(), RIGHT)


def row_of(verdict, arm, step=10):
    [found] = [one for one in verdict["steps"] if (one["arm"], one["step"]) == (arm, step)]
    return found


def test_a_true_prediction_holds(verdict):
    row = row_of(verdict, "main")
    assert [row[test] for test in "ABC"] == ["holds"] * 3
    assert row["nearest"] == 4
    assert 4 in row["set"]
    assert 64 not in row["set"]
    assert row["peak"].low < 5 < row["peak"].high


def test_a_false_prediction_fails():
    row = row_of(judge_study(STUDY, simulate(), WRONG), "main")
    assert [row[test] for test in "ABC"] == ["fails"] * 3


def test_vanillas_best_is_one(verdict):
    row = row_of(verdict, "vanilla")
    assert (row["predicted"], row["nearest"], row["best"], row["B"]) == (1, 1, 1, "holds")
    assert "A" not in row


def test_too_small_a_step_cannot_tell(verdict):
    row = row_of(verdict, "small-step")
    assert row["differ_p"] > 0.05
    assert [row[test] for test in "ABC"] == ["undecided"] * 3


def test_gains_are_paired_with_the_main_grid(verdict):
    gains = verdict["gains"]["better"]
    assert list(gains) == [str(size) for size in SIZES]
    # Four standard errors, 0.02 sqrt(2/12) each.
    assert all(abs(gain.value - 0.1) < 4 * 0.0082 for gain in gains.values())
    assert all(gain.low < gain.value < gain.high for gain in gains.values())
    assert "better" not in {row["arm"] for row in verdict["steps"]}


def test_the_best_eta_of_each_group_size(verdict):
    """0.001 is never the best; of the other two 0.015 from G = 16 on, at which it peaks."""
    row, table = verdict["best_eta"], simulate()
    assert (row["step"], row["seeds"], row["etas"]) == (10, 5, [0.001, 0.015, 0.03])
    assert row["chosen"] == [0.03] * 3 + [0.015] * 3
    last = table[(table["step"] == 10) & (table["seed"] < 5)]
    means = last.groupby(["arm", "group_size"])["value"].mean()
    expected = [*means["main"][:3], *means["half-step"][3:]]
    assert row["means"] == pytest.approx(expected)
    assert (row["best"], row["B"]) == (16, "fails")
    assert "C" not in row


def test_one_eta_is_not_the_best_of_any():
    table = simulate()
    found = judge_study(STUDY, table[~table["arm"].str.endswith("step")], RIGHT)
    assert found["best_eta"] is None


def test_etas_without_a_seed_in_common_are_not_compared():
    table = simulate()
    apart = (table["arm"] == "half-step") & (table["group_size"] == 64)
    row = judge_study(STUDY, table[~apart | (table["seed"] > 90)], RIGHT)["best_eta"]
    assert row["sizes"] == SIZES[:-1]
    nobody = table["arm"].eq("half-step") & table["seed"].ne(table["group_size"] % 5)
    assert judge_study(STUDY, table[~nobody], RIGHT)["best_eta"] is None


def test_held_out_prompts_stand_beside(verdict):
    means = dict(zip(SIZES, row_of(verdict, "main")["means"], strict=True))
    assert verdict["held_out"]["main"] == pytest.approx(
        {str(size): mean - 0.1 for size, mean in means.items()}
    )


def test_without_held_out_prompts_nothing_is_said_of_them():
    found = judge_study(STUDY, simulate().assign(held_out=float("nan")), RIGHT)
    assert found["held_out"]["main"] == {}


def test_only_seeds_that_have_every_group_size_count():
    table = simulate()
    gone = (table["arm"] == "main") & (table["seed"] == 3) & (table["group_size"] == 8)
    curve = curve_of(table[~gone], "main", 10)
    assert curve.values_SG.shape == (11, 6)


def test_a_single_group_size_is_compared_with_nothing():
    table = simulate()
    found = judge_study(STUDY, table[table["group_size"] == 8], RIGHT)
    assert row_of(found, "main")["B"] == "undecided"


def test_two_seeds_tell_nothing():
    row = row_of(judge_study(STUDY, simulate(seeds=2), RIGHT), "main")
    assert row == row | {"seeds": 2, "B": "undecided"}
    assert "A" not in row


def test_the_mean_of_seeds():
    """1 and 3: mean 2, standard error 1, Student's quantile at one degree 12.7062."""
    assert mean_interval([1.0, 3.0], 0.95) == pytest.approx((2, -10.7062, 14.7062))
