"""The ladder on the screen and drawn: whole, short, each number once."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from mse_lab.answers.advice import make_advice
from mse_lab.answers.advice_evidence import evidence_of_run
from mse_lab.answers.ladder import Ladder
from mse_lab.config.schema import Training
from mse_lab.config.training import find_setting, read_training
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.samples import Samples
from mse_lab.project import PROJECT
from mse_lab.report.advice_report import advice_text
from mse_lab.report.ladder_figure import BATCHES, compose_ladder
from mse_lab.report.ladder_report import (
    ladder_part,
    lines_to_type,
    say_what_changes_it,
    steps_table,
)
from mse_lab.results.finished_run import read_run
from simulated import POPULATION, choose, evidence_of, evidence_of_pools, population

RESULTS = PROJECT / "results"
POOLS = [
    path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.glob("*/*/pools.npz")
]


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


VERL = {"trainer": "verl", "actor_rollout_ref.rollout.n": 8}
TRAININGS = [
    {},
    {"completions_per_step": 64},
    {"completions_per_step": 1024},
    {"loss_type": "sapo"},  # Whose error is not known.
    {
        **{"per_device_train_batch_size": 64, "gradient_accumulation_steps": 4},
        **{"num_generations": 8, "loss_type": "dr_grpo", "scale_rewards": "none"},
        **{"beta": 0.04, "learning_rate": 1e-6, "num_train_epochs": 3},
    },
    {"trainer": "rloo"},
    {"trainer": "rloo", "num_generations": 2, "per_device_train_batch_size": 64},
    VERL,
    VERL | {"completions_per_step": 1024},
    {"trainer": "other", "G": 8, "estimator": "grpo"},
    {"trainer": "other", "G": 1, "estimator": "vanilla"},
]
LINES = 14


def answer_of(evidence):
    """What stands before the details, which begin behind an empty line."""
    lines = advice_text(make_advice(evidence)).splitlines()
    return lines[: lines.index("")]


def settings_of(probe=None):
    return [find_setting(Training(**{"trainer": "trl"} | one), probe) for one in TRAININGS]


@pytest.mark.parametrize("name", sorted(POOLS))
def test_every_committed_run_answers_in_fourteen_lines(name):
    run = read_run(RESULTS / name)
    for setting in (run.setting, *settings_of(run.probe)):
        answer = answer_of(evidence_of_run(run, setting))
        assert len(answer) <= LINES, "\n".join(answer)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("prompts", [12, 60])
def test_a_sample_answers_in_fourteen_lines(graded, prompts):
    """Of rewards that are graded a few completions do not tell every loss's error."""
    rng = np.random.default_rng(prompts)
    design = choose(population(rng), rng.integers(0, POPULATION, prompts))
    rewards_PC = design.reward_PC + graded * rng.random(design.reward_PC.shape)
    samples = Samples.of(replace(design, reward_PC=rewards_PC).sample(rng, 12))
    for setting in settings_of():
        completions = setting.completions_per_step or 0
        answer = answer_of(evidence_of(samples, setting, completions))
        assert len(answer) <= LINES, "\n".join(answer)


def test_rows_that_are_one_stand_once(advice):
    yours, size, trainer, _ = advice.ladder
    same = size._replace(group_size=yours.group_size, estimator=yours.estimator)
    one = replace(advice, ladder=(yours, same, trainer, trainer._replace(row="best")))
    shown = [row[0].partition(":")[0] for row in ladder_part(one).rows]
    assert shown == ["yours", "trainer"]
    alone = replace(advice, ladder=(yours, same, same, same))
    assert not say_what_changes_it(alone)
    assert not steps_table(alone).rows


def test_an_unchanged_rate_gives_roots_and_epochs_their_own_costs(advice):
    """With another loss they are GRPO-type's, as screens say."""
    own = replace(
        advice, ladder=(advice.ladder[0]._replace(estimator="grpo"), *advice.ladder[1:])
    )
    assert say_what_changes_it(own).endswith("small steps: 0.81, 0.50, 0.25.")
    alike = replace(
        advice, ladder=tuple(row._replace(in_epochs=row.cost) for row in advice.ladder)
    )
    assert "epochs" not in say_what_changes_it(alike)


def test_what_cannot_be_typed_says_why(advice):
    yours, size, trainer, best = advice.ladder
    rows = (yours, size, trainer, best._replace(typed=None, why="it takes 2 or more"))
    typed, why, _ = lines_to_type(replace(advice, ladder=rows))
    assert typed == f"trainer: {trainer.typed}"
    assert why == "best: it takes 2 or more"


def test_the_steps_that_a_row_saves_are_less_for_a_large_step(advice):
    """At N unknown all rows of N, as on screens; at the user's its row is the ladder's."""
    at_256 = steps_table(replace(advice, completions_per_step=256))
    assert [row[0] for row in at_256.rows] == ["  64", "  1,024", "  4,096"]


def test_lines_are_the_rows_of_the_ladder(known):
    ladder = Ladder(evidence_of_pools(known[1]))
    lines = compose_ladder(ladder).axes[0].get_lines()
    assert len(lines) == 5
    assert len({(to_hex(one.get_color()), one.get_linestyle()) for one in lines}) == 5
    drawn = {one.get_label(): one.get_ydata() for one in lines}
    assert sum("baseline" in label for label in drawn) == 2
    for row, line in zip(ladder.rows(), drawn.values(), strict=False):
        at = [one.completions_per_step for one in row.progress].index(64)
        steps = line[BATCHES.index(64.0)]
        assert steps == pytest.approx(row.progress[at].steps.value)


def test_settings_that_are_one_have_one_line(known):
    verl = {"trainer": "verl", "rollout.n": 8, "algorithm.adv_estimator": "rloo"}
    ladder = Ladder(evidence_of_pools(known[1], read_training(verl)))
    labels = [one.get_label() for one in compose_ladder(ladder).axes[0].get_lines()]
    assert len(labels) == len({*labels}) == 4


def test_your_own_batch_is_marked(known):
    ladder = Ladder(evidence_of_pools(known[1], completions=256))
    marks = compose_ladder(ladder).axes[0].get_lines()
    assert [256, 256] in [list(np.ravel(one.get_xdata())) for one in marks]
