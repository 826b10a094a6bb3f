"""Effort: the seed decides what is drawn, and where runs begin is given."""

import numpy as np

from mse_lab.studies.theory.ascent import Rule, decaying
from mse_lab.studies.theory.bandit import tabular
from mse_lab.studies.theory.effort import Effort, gaps

RULE, STEPS = Rule("grpo", 1, 2), decaying(5.0, 5)


def ends(two, seed, name="name"):
    start = two.bandit.maximum_D
    return Effort(seed, 6, (1, 2)).ascents(two.bandit, RULE, STEPS, (0, 3), start, name)


def test_the_seed_and_the_name_decide(two):
    np.testing.assert_array_equal(ends(two, 0), ends(two, 0))
    for other in (ends(two, 1), ends(two, 0, "other")):
        assert (ends(two, 0)[1] != other[1]).any()


def test_gaps_are_from_the_maximum_or_from_what_is_given(two):
    found = gaps(two.bandit, ends(two, 0))
    assert found.shape == (2, 6)
    np.testing.assert_allclose(found[0], 0, atol=1e-15)
    assert (found >= -1e-15).all()
    assert (found[1] > 0).any()
    np.testing.assert_allclose(gaps(tabular(4), np.zeros((1, 4, 2)), 1.0), 0.75)
