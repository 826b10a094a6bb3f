"""||g||^2 by every completion: unbiased, less noisy, and as noisy as it says."""

import numpy as np
import pytest

from mse_lab.mse.reference_noise import (
    gradient2_of_all,
    replicates_with_reference,
)
from simulated import make_design


def test_products_that_are_not_known_are_left_out():
    pools = make_design(np.random.default_rng(5), prompts=3).draw(
        np.random.default_rng(6), 8, 2, 8
    )
    gram = pools.gram_PKGG.copy()
    gram[1, :, 0, 1] = gram[1, :, 1, 0] = np.nan
    norms_only = type(pools)(**vars(pools) | {"gram_PKGG": gram})
    whole, left = gradient2_of_all(pools), gradient2_of_all(norms_only)
    assert left[[0, 2]] == pytest.approx(whole[[0, 2]])
    expected = 16 * pools.reference_product_P + 128 * replicates_with_reference(pools)
    assert left[1] == pytest.approx(expected[1] / 144)
