"""Trainers' settings: whole, and of estimators by the names that they have here.

That TRL's compute the weights and the loss of `centred` is tested against TRL itself, in
`peers/test_trl.py`.
"""

import ast

import pytest

from mse_lab.answers.trainer_settings import (
    DISPLAY_NAMES,
    TRAINERS_DEFAULT,
    base_name,
    settings_for,
)
from mse_lab.config.trainers import TRAINERS
from mse_lab.config.training import read_training
from mse_lab.mse.loss import is_constant, up_to_a_factor


def test_trl():
    call = ast.parse(settings_for("trl", "grpo", 4), mode="eval").body
    given = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    expected = {"scale_rewards": "none", "loss_type": "dr_grpo", "beta": 0.0}
    assert given == {"num_generations": 4, **expected}


LINES = [(trainer, name) for trainer in TRAINERS for name in TRAINERS[trainer].lines]


@pytest.mark.parametrize(("trainer", "name"), LINES)
def test_what_is_told_to_type_computes_the_estimator(trainer, name):
    """Read back from the line as a training's own settings."""
    size = 1 if is_constant(name) else 4
    line = settings_for(trainer, name, size).partition(" (")[0].removesuffix(", nearly")
    if trainer in ("trl", "rloo"):
        call = ast.parse(line, mode="eval").body
        given = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    else:
        given = {"words": line.split()}
    found = read_training({"trainer": trainer, **given})
    assert found.group_size == size
    assert all(one.endswith("(default)") for one in found.uncounted)
    assert base_name(up_to_a_factor(found.estimator)) == name


def test_estimators_go_by_their_names():
    known = {"grpo", "vanilla", "batch-mean", base_name(TRAINERS_DEFAULT)}
    assert {*DISPLAY_NAMES} == known
    assert all({*trainer.lines} <= known for trainer in TRAINERS.values())
