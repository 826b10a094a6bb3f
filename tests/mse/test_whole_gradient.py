"""||g||^2 by every completion: unbiased, less noisy, and as noisy as it says."""

import numpy as np
import pytest

from mse_lab.mse.reference_noise import covariance_square_trace
from mse_lab.mse.whole_gradient import (
    gradient2_of_all,
    noise_of_all,
    noise_of_pairs,
    replicates_with_reference,
)
from simulated import make_design, with_rewards

RUNS = 1500


@pytest.fixture(scope="module", params=[(8, 4), (64, 2)], ids=["small reference", "large"])
def drawn(request):
    """Runs of eight prompts, with half their gradients large and half nearly zero."""
    reference, blocks = request.param
    rng = np.random.default_rng(5)
    design = make_design(rng, prompts=8)
    pools = [design.draw(rng, reference, blocks, 8) for _ in range(RUNS)]
    return (design.gradient_PD**2).sum(-1), pools


def test_it_is_unbiased(drawn):
    """Within four and a half standard errors at each of eight prompts: false in 1e-4."""
    truth_P, pools = drawn
    found = np.array([gradient2_of_all(one) for one in pools])
    apart_P = (found.mean(0) - truth_P) / (found.std(0, ddof=1) / np.sqrt(RUNS))
    assert abs(apart_P).max() < 4.5


def test_it_is_less_noisy_than_the_reference_alone(drawn):
    _, pools = drawn
    found = np.array([gradient2_of_all(one) for one in pools])
    alone = np.array([one.reference_product_P for one in pools])
    assert (found.var(0) < alone.var(0)).all()


def test_its_standard_error_is_what_it_varies_by(drawn):
    """Of an average prompt, on the safe side: never below 0.9 of it."""
    _, pools = drawn
    varies = np.array([gradient2_of_all(one) for one in pools]).std(0)
    says = np.sqrt(np.mean([noise_of_all(one) ** 2 for one in pools], axis=0))
    assert (says > 0.9 * varies).all()
    assert np.median(says / varies) < 2


def test_every_pair_counts_once():
    """By the pairs: 4^2 between halves, 8 x 16 with the reference, 2 x 28 in blocks."""
    pools = make_design(np.random.default_rng(5), prompts=3).draw(
        np.random.default_rng(6), 8, 2, 8
    )
    pairs = 16 + 128 + 56
    noise_P = np.sqrt(covariance_square_trace(pools) / pairs)
    assert noise_of_pairs(pools) == pytest.approx(noise_P)
    blocks_P = gradient2_of_all(pools) * pairs
    blocks_P -= 16 * pools.reference_product_P + 128 * replicates_with_reference(pools)
    # What is left is the blocks': a shift of all rewards leaves it, a factor squares it.
    doubled = with_rewards(pools, lambda rewards: 2 * rewards + 3)
    again_P = gradient2_of_all(doubled) * pairs
    again_P -= 16 * doubled.reference_product_P + 128 * replicates_with_reference(doubled)
    assert again_P == pytest.approx(4 * blocks_P)


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
