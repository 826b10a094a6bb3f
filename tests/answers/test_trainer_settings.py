"""Trainers' settings: whole, and of estimators by the names that they have here.

That TRL's compute the weights and the loss of `centred` is tested against TRL itself, in
`peers/test_trl.py`.
"""

import ast

import pytest

from mse_lab.answers.alternatives import CONSTANT, TRAINERS_DEFAULT
from mse_lab.answers.trainer_settings import (
    DISPLAY_NAMES,
    ESTIMATOR_SETTINGS,
    TRAINER_SETTINGS,
)
from mse_lab.estimators import ESTIMATORS, find_estimator

SETTINGS = {one.trainer: one for one in TRAINER_SETTINGS}


def test_trl():
    call = ast.parse(SETTINGS["TRL"].at(4), mode="eval").body
    given = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    expected = {"scale_rewards": "none", "loss_type": "dr_grpo", "beta": 0.0}
    assert given == {"num_generations": 4, **expected}


@pytest.mark.parametrize("trainer", SETTINGS)
def test_every_trainer_is_told_the_size(trainer):
    one = SETTINGS[trainer]
    assert "4" in one.at(4)
    assert one.line(4).startswith(one.at(4))
    assert one.note in one.line(4)


def test_estimators_go_by_their_names():
    known = {"grpo", *CONSTANT, find_estimator(TRAINERS_DEFAULT).name}
    assert {*DISPLAY_NAMES} == known
    assert {*ESTIMATOR_SETTINGS} <= known | {*ESTIMATORS}
