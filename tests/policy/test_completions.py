"""Completions: told apart and ended by their own tokens."""

import numpy as np

from mse_lab.policy.completions import Completions, concatenate


def test_distinct_completions():
    """Told apart by their own tokens alone, whatever stands behind them."""
    tokens = np.array([[5, 1, 7], [5, 1, 8], [5, 3, 1], [5, 1, 1], [5, 3, 1]])
    ended = np.ones(5, bool)
    drawn = Completions(tokens, np.array([2, 2, 3, 3, 3]), np.zeros(5), ended)
    distinct, place = drawn.distinct()
    assert [own.tolist() for own in distinct.unpadded] == [[5, 1], [5, 3, 1], [5, 1, 1]]
    assert place.tolist() == [0, 0, 1, 2, 1]


def test_the_first_end_token_ends_a_completion():
    """Whatever stands behind it; without one it was cut at the last position."""
    tokens = np.array([[5, 1, 0], [0, 2, 1], [5, 3, 4], [2, 2, 2]])
    found = Completions.ending(tokens, np.arange(4.0), (1, 2))
    assert found.lengths_N.tolist() == [2, 2, 3, 1]
    assert found.ended_N.tolist() == [True, True, False, True]


def test_parts_that_are_joined_are_the_whole():
    tokens = np.array([[5, 1], [3, 4], [2, 0]])
    whole = Completions.ending(tokens, np.arange(3.0), (1, 2))
    again = concatenate([whole[:1], whole[1:]])
    for name, array in vars(whole).items():
        np.testing.assert_array_equal(vars(again)[name], array)
