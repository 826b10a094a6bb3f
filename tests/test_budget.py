"""Random prompts: the constants of a distribution, and draws that lie about them."""

import numpy as np
import pytest
from simulated import make_design

from mse_lab.budget import measure_constants, resample_constants

DRAWS = 20000


@pytest.mark.parametrize("prompts", [2, 4])
def test_draws_lie_about_the_constants(prompts):
    """Of few prompts, where what resampling shrinks or lifts is 50 or 25%.

    Means of 20,000 draws within four standard errors; false alarm 6e-5 each.
    """
    rng = np.random.default_rng(0)
    pools = make_design(rng, prompts).draw(rng, 256, 2, 8)
    found = measure_constants(pools)
    drawn = resample_constants(pools, DRAWS, rng)
    for name in found._fields:
        values = getattr(drawn, name)
        error = values.std(ddof=1) / np.sqrt(DRAWS)
        assert abs(values.mean() - getattr(found, name)[0]) < 4 * error + 1e-12, name


def test_spread_between_prompts_by_hand():
    """c1 over all pairs of different prompts, ||g||^2 from halves."""
    rng = np.random.default_rng(1)
    pools = make_design(rng, 3).draw(rng, 16, 2, 4)
    own = pools.reference_product_P.mean()
    pairs = [pools.between_PP[x, y] for x in range(3) for y in range(3) if x != y]
    found = measure_constants(pools)
    assert found.between[0] == pytest.approx(own - np.mean(pairs))
    assert found.gradient2[0] == pytest.approx(np.mean(pairs))
