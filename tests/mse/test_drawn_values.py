"""What the reference's rewards are drawn to be: without bias, also where they are few."""

import numpy as np

from mse_lab.mse.reference_noise import draw_reference_noise
from simulated import make_design


def test_the_scale_of_a_half_is_unbiased():
    """Means of 40,000 draws of halves of four; six standard errors of what they vary by."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 5).draw(rng, 8, 2, 4)
    noise = draw_reference_noise(pools, 40_000, rng).rewards
    known = (pools.value_P > 0) & (pools.value_P < 1)
    assert known.sum() > 1
    for drawn in (noise.mean[:, known], noise.product[:, known]):
        error = drawn.std(0) / np.sqrt(len(drawn))
        assert (abs(drawn.mean(0) - 1) < 6 * error).all()
