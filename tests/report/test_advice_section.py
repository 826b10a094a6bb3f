"""The advice on the page: its tables, from the runs of the page."""

import numpy as np
import pytest

from mse_lab.report.advice_section import _price_table
from mse_lab.report.layout import estimate_cell
from populations import advise_on, population, sample


@pytest.fixture(scope="module")
def advice():
    rng = np.random.default_rng(0)
    return advise_on(sample(population(rng), rng, reference=64, blocks=2, largest=16))


def test_prices_of_the_users_own_and_of_other_estimators(advice):
    priced = _price_table(advice).rows
    assert priced[0][1] == estimate_cell(advice.prices[0].cost)
    assert len(priced) == len(advice.alternatives) + 1 + (advice.set_to != 8)
