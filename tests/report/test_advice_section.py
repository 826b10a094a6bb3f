"""The advice on the page: its tables, from the runs of the page."""

import numpy as np
import pytest

from mse_lab.report.advice_section import _cost_table, _price_table
from mse_lab.report.layout import estimate_cell
from populations import advise_on, population, sample


@pytest.fixture(scope="module")
def advice():
    rng = np.random.default_rng(0)
    return advise_on(sample(population(rng), rng, reference=64, blocks=2, largest=16))


def test_costs_of_sizes_and_of_other_estimators(advice):
    """The recommended size is marked; no share is known of groups larger than pools."""
    rows = _cost_table(advice).rows
    alone = rows[: len(advice.rows)]
    assert [row[1] for row in alone] == [estimate_cell(one.cost) for one in advice.rows]
    marked = [row[0] for row in alone if row[0].endswith("◂ use")]
    assert marked == [f"GRPO-type (RLOO), G\u00a0=\u00a0{advice.set_to} ◂ use"]
    assert alone[-1][2] == "–"
    priced = _price_table(advice).rows
    assert len(priced) == len(advice.alternatives) + 1 + (advice.set_to != 8)
