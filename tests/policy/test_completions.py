"""Completions: told apart and ended by their own tokens."""

import numpy as np

from enumerated import as_completions
from mse_lab.policy.completions import Completions, concatenate


def test_distinct_completions():
    """Told apart by their own tokens alone, whatever stands behind them."""
    tokens = np.array([[5, 1, 7], [5, 1, 8], [5, 3, 1], [5, 1, 1], [5, 3, 1]])
    drawn = Completions(tokens, np.array([2, 2, 3, 3, 3]), np.zeros(5), np.ones(5, bool))
    distinct, place = drawn.distinct()
    assert [own.tolist() for own in distinct.unpadded] == [[5, 1], [5, 3, 1], [5, 1, 1]]
    assert place.tolist() == [0, 0, 1, 2, 1]


def test_parts_that_are_joined_are_the_whole():
    whole = as_completions([(5, 1), (3, 4), (2,)])
    again = concatenate([whole[:1], whole[1:]])
    for name, array in vars(whole).items():
        np.testing.assert_array_equal(vars(again)[name], array)
