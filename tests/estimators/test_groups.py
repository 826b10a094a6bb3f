"""Rewards 0 and 1 are told from others, which are refused."""

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.estimators.groups import check_binary, is_binary


def test_binary():
    assert is_binary(np.array([0.0, 1.0]))
    assert not is_binary(np.array([0.0, 0.5]))


def test_other_rewards_are_refused():
    check_binary(np.array([0.0, 1.0]), "maxrl")
    with pytest.raises(InputError, match=r"maxrl needs rewards of 0 or 1, not 0\.5"):
        check_binary(np.array([0.0, 0.5]), "maxrl")
