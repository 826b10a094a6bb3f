"""Verdicts of a simulated study: true, false, vanilla, and too small a step."""

import pytest
from scipy.special import expit, logit

from mse_lab.studies.training.verdict import curve_of, judge_study, mean_interval
from simulated_study import SIZES, STUDY, predict, row_of, simulate

RIGHT, WRONG = predict(4), predict(39)


@pytest.fixture(scope="module")
def verdict():
    return judge_study(STUDY, simulate(), RIGHT)


def test_a_true_prediction_holds(verdict):
    row = row_of(verdict, "main")
    assert (row["verdict"], row["nearest"]) == ("holds", 4)
    assert 4 in row["set"]
    assert 64 not in row["set"]
    assert 4 not in row["alike"]
    assert row["regret"].low == 0 <= row["regret"].value <= row["regret"].high <= 0.02
    assert verdict["predicted"]["10"] == RIGHT[10].interval(0.95)


def test_a_false_prediction_fails():
    row = row_of(judge_study(STUDY, simulate(), WRONG), "main")
    assert (row["verdict"], row["nearest"]) == ("fails", 32)
    assert row["regret"].low > 0.02


def test_vanillas_best_is_one(verdict):
    row = row_of(verdict, "vanilla")
    assert (row["nearest"], row["best"], row["verdict"]) == (1, 1, "holds")


def test_too_small_a_step_cannot_tell(verdict):
    row = row_of(verdict, "small-step")
    assert (row["verdict"], row["alike"]) == ("undecided", [])


def test_gains_are_paired_with_the_main_grid(verdict):
    for prompts in ("training", "held-out"):
        gains = verdict["gains"]["better"][prompts]
        assert list(gains) == [str(size) for size in SIZES]
        # Four standard errors, 0.01 sqrt(2/12) each.
        assert all(abs(gain.value - 0.1) < 4 * 0.0041 for gain in gains.values())
        assert all(gain.low < gain.value < gain.high for gain in gains.values())
    assert "better" not in {row["arm"] for row in verdict["steps"]}


def test_the_best_eta_of_each_group_size(verdict):
    """0.001 is never the best; of the other two 0.015 from G = 16 on, at which it peaks."""
    row, _ = verdict["best_eta"]
    table = simulate()
    assert (row["step"], row["seeds"], row["etas"]) == (10, 5, [0.001, 0.015, 0.03])
    assert row["chosen"] == [0.03] * 3 + [0.015] * 3
    last = table[(table["step"] == 10) & (table["seed"] < 5)]
    means = last.groupby(["arm", "group_size"])["value"].mean()
    expected = [*means["main"][:3], *means["half-step"][3:]]
    assert row["means"] == pytest.approx(expected)
    assert (row["best"], row["verdict"]) == (16, "fails")


def test_what_is_best_held_out_is_chosen_there():
    """Held out the small step is best at every group size."""
    table = simulate()
    small = table["arm"] == "small-step"
    table = table.assign(
        held_out=table["held_out"].mask(small & (table["step"] == 10), 0.9)
    )
    training, held_out = judge_study(STUDY, table, RIGHT)["best_eta"]
    assert (training["prompts"], held_out["prompts"]) == ("training", "held-out")
    assert training["chosen"] == [0.03] * 3 + [0.015] * 3
    assert held_out["chosen"] == [0.001] * 6
    assert held_out["means"] == pytest.approx([0.9] * 6)


def test_one_eta_is_not_the_best_of_any():
    table = simulate()
    found = judge_study(STUDY, table[~table["arm"].str.endswith("step")], RIGHT)
    assert found["best_eta"] == []


def test_the_better_one_of_two_etas_is_judged():
    table = simulate()
    found = judge_study(STUDY, table[table["arm"] != "half-step"], RIGHT)["best_eta"]
    assert {row["prompts"] for row in found} == {"training", "held-out"}


def test_etas_without_a_seed_in_common_are_not_compared():
    table = simulate()
    apart = (table["arm"] == "half-step") & (table["group_size"] == 64)
    row, _ = judge_study(STUDY, table[~apart | (table["seed"] > 90)], RIGHT)["best_eta"]
    assert row["sizes"] == SIZES[:-1]
    nobody = table["arm"].eq("half-step") & table["seed"].ne(table["group_size"] % 5)
    assert judge_study(STUDY, table[~nobody], RIGHT)["best_eta"] == []


def test_held_out_prompts_are_judged_where_they_were_looked_at(verdict):
    held_out = row_of(verdict, "main", prompts="held-out")
    expected = [mean - 0.1 for mean in row_of(verdict, "main")["means"]]
    assert held_out["means"] == pytest.approx(expected)
    assert held_out["verdict"] == "holds"
    steps = [row["step"] for row in verdict["steps"] if row["prompts"] == "held-out"]
    assert set(steps) == {10}


def test_without_held_out_prompts_nothing_is_said_of_them():
    found = judge_study(STUDY, simulate().assign(held_out=float("nan")), RIGHT)
    assert {row["prompts"] for row in found["steps"]} == {"training"}
    assert [row["prompts"] for row in found["best_eta"]] == ["training"]
    assert found["gains"]["better"]["held-out"] == {}


def test_only_seeds_that_have_every_group_size_count():
    table = simulate()
    gone = (table["arm"] == "main") & (table["seed"] == 3) & (table["group_size"] == 8)
    curve = curve_of(table[~gone], "main", 10)
    assert curve.values_SG.shape == (11, 6)


@pytest.mark.parametrize("few", ["seeds", "group sizes"])
def test_too_few_tell_nothing(few):
    table = simulate(seeds=3 if few == "seeds" else 12)
    if few == "group sizes":
        table = table[table["group_size"] == 4]
    row = row_of(judge_study(STUDY, table, RIGHT), "main")
    assert row["verdict"] == "undecided"
    assert not {"set", "regret"} & set(row)
    assert row["best"] in SIZES


def test_the_mean_of_seeds():
    """0.2, 0.4, 0.4, 0.6: mean 0.4, standard error 0.0816497, Student's quantile 3.18245.

    In the logit they are 3.18245 times 0.0816497 / (0.4 times 0.6) = 1.08268.
    """
    values = [0.2, 0.4, 0.4, 0.6]
    ends = [expit(logit(0.4) + sign * 1.08268) for sign in (-1, 1)]
    assert mean_interval(values, 0.95) == pytest.approx((0.4, *ends), abs=1e-5)
    gains = mean_interval([2 * one - 1 for one in values], 0.95, (-1, 1))
    assert gains == pytest.approx((-0.2, *(2 * end - 1 for end in ends)), abs=1e-5)


def test_an_interval_stays_between_what_j_can_be():
    broken = mean_interval([0.94, 0.94, 0.05, 0.04], 0.95)
    assert 0 < broken.low < broken.value < broken.high < 1
    # Rewards that are no right or wrong: Student's own.
    assert mean_interval([2.0, 4, 4, 6], 0.95) == pytest.approx(
        (4, 1.40154, 6.59846), abs=1e-5
    )
