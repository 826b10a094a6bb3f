"""A subject is measured without folder or processes, and refuses what does not fit it."""

import numpy as np
import pytest

from measurements import flat
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimators
from mse_lab.measurement.prompt import measure_prompt


def test_a_prompt_is_measured_alike_whatever_came_before_and_nothing_is_written(
    subject_of, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    alone = flat(measure_prompt(subject_of(), 1))
    both = subject_of()
    first, second = (flat(measure_prompt(both, index)) for index in (0, 1))
    for name in set(alone) - {"seconds"}:
        np.testing.assert_array_equal(alone[name], second[name])
    assert not np.array_equal(first["gram_KGG"], second["gram_KGG"])
    assert not list(tmp_path.iterdir())


def test_rewards_that_an_estimator_cannot_take_are_refused_at_the_first_prompt(subject_of):
    estimators = find_estimators([{"name": "pass-at-k", "k": 2}], [2, 4], 2)
    measure_prompt(subject_of(estimators=estimators), 0)
    graded = subject_of(lambda text, row: 0.25, estimators=estimators)
    with pytest.raises(
        InputError, match=r"pass-at-k.* needs rewards 0 and 1, and prompt a"
    ):
        measure_prompt(graded, 0)


def test_vectors_that_do_not_fit_are_kept_as_sketches(subject_of, monkeypatch):
    one = subject_of()
    whole = len(measure_prompt(one, 0).arrays.mean_D)
    monkeypatch.setattr("mse_lab.scores.sketches.vectors_fit", lambda *_: False)
    assert whole == one.policy.size != len(measure_prompt(one, 0).arrays.mean_D)
