"""Judgements by hand."""

import numpy as np
import pytest

from mse_lab.answers.judgement import Pair, holm, judge_not_larger, judge_smaller
from mse_lab.mse.intervals import Statistic


def test_no_loss_is_not_the_same_as_not_shown():
    """A precise tie holds, a vague one is undecided, a shown loss fails."""
    noise = np.random.default_rng(0).standard_normal((1, 1000))
    base = Statistic(1.0, {}, {})

    def judge(value, error):
        spread = error * np.sqrt(noise.size) * noise
        return judge_not_larger([Pair(4, Statistic(value, {"a": spread}, {}), base)], 0.95)

    assert judge(1.0, 0.001)[0].verdict == "holds"
    assert judge(1.0, 0.1)[0].verdict == "undecided"
    assert judge(1.01, 0.001)[0].verdict == "fails"


def test_smaller_is_told_by_the_sign_where_a_difference_is_shown():
    noise = np.random.default_rng(0).standard_normal((1, 1000))
    base = Statistic(1.0, {}, {})

    def judge(value, error):
        spread = error * np.sqrt(noise.size) * noise
        pair = Pair(4, Statistic(value, {"a": spread}, {}), base)
        return judge_smaller([pair], 0.95)[0].verdict

    found = [judge(0.9, 0.001), judge(0.9, 0.5), judge(1.1, 0.5), judge(1.1, 0.001)]
    assert found == ["holds", "undecided", "undecided", "fails"]


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03 times 3, 2, 1, made increasing: 0.03, 0.04, 0.04.
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
