"""Judgements by hand."""

import numpy as np
import pytest

from mse_lab.answers.judgement import Pair, holm, judge_not_larger, judge_smaller
from mse_lab.mse.intervals import Statistic


@pytest.mark.parametrize(
    ("judge", "value", "error", "verdict"),
    [
        # A precise tie holds, a vague one is undecided, a shown loss fails.
        (judge_not_larger, 1.0, 0.001, "holds"),
        (judge_not_larger, 1.0, 0.1, "undecided"),
        (judge_not_larger, 1.01, 0.001, "fails"),
        (judge_smaller, 0.9, 0.001, "holds"),
        (judge_smaller, 0.9, 0.5, "undecided"),
        (judge_smaller, 1.1, 0.5, "undecided"),
        (judge_smaller, 1.1, 0.001, "fails"),
    ],
)
def test_no_loss_and_a_sign_are_not_the_same_as_not_shown(judge, value, error, verdict):
    noise = np.random.default_rng(0).standard_normal((1, 1000))
    first = Statistic(value, {"a": error * np.sqrt(noise.size) * noise}, {})
    [found] = judge([Pair(4, first, Statistic(1.0, {}, {}))], 0.95)
    assert found.verdict == verdict


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03 times 3, 2, 1, made increasing: 0.03, 0.04, 0.04.
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
