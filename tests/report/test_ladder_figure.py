"""The ladder's figure: a line a row, once; towards small N the costs of the advice."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from mse_lab.answers.advice_evidence import evidence_of_run
from mse_lab.answers.ladder import Ladder
from mse_lab.config.training import DEFAULT, read_training
from mse_lab.report.ladder_figure import BATCHES, compose_ladder
from simulated import analysed


def ladder_of(pools, setting=DEFAULT, completions=0):
    run = analysed(pools, [2, 4, 8, 16])
    return Ladder(evidence_of_run(run, setting, completions=completions))


def test_lines_are_the_rows_of_the_ladder(known):
    ladder = ladder_of(known[1])
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
    ladder = ladder_of(known[1], read_training(verl))
    labels = [one.get_label() for one in compose_ladder(ladder).axes[0].get_lines()]
    assert len(labels) == len({*labels}) == 4


def test_your_own_batch_is_marked(known):
    marks = compose_ladder(ladder_of(known[1], completions=256)).axes[0].get_lines()
    assert [256, 256] in [list(np.ravel(one.get_xdata())) for one in marks]
