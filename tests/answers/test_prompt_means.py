"""Means over prompts, by hand."""

import numpy as np
import pytest

from mse_lab.answers.prompt_means import mean_of_prompts


def test_a_mean_over_prompts_has_the_textbooks_standard_error():
    """1, 2 and 6: mean 3, s^2 = (4 + 1 + 9) / 2 = 7."""
    found = mean_of_prompts(np.array([1.0, 2.0, 6.0]))
    assert (found.value, found.error) == (3, pytest.approx((7 / 3) ** 0.5))
