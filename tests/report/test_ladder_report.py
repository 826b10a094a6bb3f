"""The ladder on the screen: whole, short, each number once."""

from dataclasses import replace

import pytest

from mse_lab.mse.intervals import Estimate
from mse_lab.report.advice_report import advice_text
from mse_lab.report.ladder_report import (
    ladder_part,
    lines_to_type,
    row_name,
    say_what_changes_it,
    steps_table,
)


@pytest.fixture
def advice(known):
    """Costs .81, .36 and .25, of which epochs move the second."""
    yours, *others = known[2].ladder
    costs = zip(others, (0.81, 0.36, 0.25), (0.81, 0.5, 0.25), strict=True)
    rows = [
        row._replace(
            cost=Estimate(cost, 0.9 * cost, 1.1 * cost),
            in_epochs=Estimate(epochs, epochs, epochs),
        )
        for row, cost, epochs in costs
    ]
    return replace(known[2], ladder=(yours, *rows))


@pytest.mark.parametrize("completions", [None, 1024])
def test_the_answer_stands_before_the_details(advice, completions):
    """At most 14 lines of 80 columns, then a line of none."""
    text = advice_text(replace(advice, completions_per_step=completions)).splitlines()
    assert max(map(len, text)) <= 80
    assert text.index("") <= 14
    rows = [line.partition(":")[0] for line in text[: text.index("")]]
    assert {"yours", "size", "trainer", "best"} <= {*rows}


def test_rows_that_are_one_stand_once(advice):
    yours, size, trainer, _ = advice.ladder
    same = size._replace(group_size=yours.group_size, estimator=yours.estimator)
    one = replace(advice, ladder=(yours, same, trainer, trainer._replace(row="best")))
    assert [row[0].partition(":")[0] for row in ladder_part(one).rows] == [
        "yours",
        "trainer",
    ]
    alone = replace(advice, ladder=(yours, same, same, same))
    assert not say_what_changes_it(alone)
    assert not steps_table(alone).rows


@pytest.mark.parametrize(
    ("alpha", "lam", "name"),
    [
        (0.1234, 0.4567, "trainer: 0.12 + 0.46 m, G = 2"),
        (0.1234, -0.0041, "trainer: 0.12 - 0.0041 m, G = 2"),
        (0.1234, 0.0, "trainer: 0.12, G = 2"),
    ],
)
def test_a_baseline_is_named_by_its_numbers(advice, alpha, lam, name):
    entry = {"name": "affine", "alpha": alpha, "lambda": lam}
    row = advice.ladder[2]._replace(estimator=entry, group_size=2, alpha=alpha, lam=lam)
    assert row_name(row) == name


def test_an_unchanged_rate_gives_roots_and_epochs_their_own_costs(advice):
    said = say_what_changes_it(advice)
    assert "near their roots, 0.90, 0.60, 0.50;" in said
    assert said.endswith("whole epochs of small steps, by GRPO-type, 0.81, 0.50, 0.25.")
    own = replace(
        advice, ladder=(advice.ladder[0]._replace(estimator="grpo"), *advice.ladder[1:])
    )
    assert say_what_changes_it(own).endswith("small steps they are 0.81, 0.50, 0.25.")
    alike = replace(
        advice, ladder=tuple(row._replace(in_epochs=row.cost) for row in advice.ladder)
    )
    assert "epochs" not in say_what_changes_it(alike)


def test_what_cannot_be_typed_says_why(advice):
    yours, size, trainer, best = advice.ladder
    rows = (yours, size, trainer, best._replace(typed=None, why="it takes 2 or more"))
    typed, why = lines_to_type(replace(advice, ladder=rows))
    assert typed == f"trainer: {trainer.typed}"
    assert why == "best: it takes 2 or more"


def test_the_steps_that_a_row_saves_are_less_for_a_large_step(advice):
    """At N unknown all rows of N; at the user's N its row is the ladder's own."""
    assert [row[0] for row in steps_table(advice).rows] == [
        *("  64", "  256", "  1,024", "  4,096")
    ]
    at_256 = steps_table(replace(advice, completions_per_step=256))
    assert [row[0] for row in at_256.rows] == ["  64", "  1,024", "  4,096"]
