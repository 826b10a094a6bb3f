"""Groups: what an estimator sees of a prompt, and what it must not."""

import numpy as np
import pytest

from mse_lab.mse.grouping import form_groups, group_grams
from simulated import make_design

PROMPTS, BLOCKS, LARGEST = 3, 4, 8


@pytest.fixture(scope="module")
def pools():
    rng = np.random.default_rng(0)
    return make_design(rng, PROMPTS).draw(rng, 16, BLOCKS, LARGEST)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_best_constant_is_learnt_from_the_other_groups(pools, size):
    """Every group: its own completions are left out, all others are in."""
    found = form_groups(pools, size).best_constant_PR
    norms2_PN, rewards_PN = pools.norms2_PN, pools.rewards_PN
    for x in range(PROMPTS):
        for group in range(found.shape[1]):
            other = np.arange(BLOCKS * LARGEST) // size != group
            norms2, rewards = norms2_PN[x, other], rewards_PN[x, other]
            expected = (norms2 * rewards).sum() / norms2.sum()
            assert found[x, group] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_groups_gram_block_is_of_its_completions(pools, size):
    """In the order of the completions, as their rewards and norms are."""
    grams = group_grams(pools, size)
    norms2 = grams.diagonal(axis1=-2, axis2=-1)
    np.testing.assert_array_equal(norms2, form_groups(pools, size).norms2_PRG)
    for group in range(grams.shape[1]):
        block, at = divmod(group * size, LARGEST)
        expected = pools.gram_PKGG[:, block, at : at + size, at : at + size]
        np.testing.assert_array_equal(grams[:, group], expected)
