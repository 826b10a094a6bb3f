"""Plain data, as deep as it goes: five digits, and words for what is not finite."""

import math

from mse_lab.answers.plain_data import as_data
from mse_lab.mse.intervals import Estimate


def test_data_are_plain_all_the_way_down():
    deep = {"rows": [{"cost": Estimate(1 / 3, -math.inf, math.nan)}], "name": "grpo"}
    low = {"value": 0.33333, "low": "-inf", "high": "nan"}
    assert as_data(deep) == {"rows": [{"cost": low}], "name": "grpo"}
    assert as_data(((2 / 3,), 7)) == [[0.66667], 7]
