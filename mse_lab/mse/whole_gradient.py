"""||g||^2 of a prompt by every completion of its run: reference and replicates together.

A pair of different completions i, j gives an unbiased product of gradients. Known are the
products between the halves of the reference (n completions each), between N replicates and
the reference, and between replicates of one block of G,

    <r_A, r_B>                        n^2 pairs
    <g_N, rbar>                       2 n N pairs, g_N the leave-one-out gradient of all N
    the U-statistic of each block     K G (G-1) / 2 pairs, G >= 4 (`one_pool.py`)

and ||g||^2 is their mean, a pair counting once. Where g is small every pair is as noisy as
another, so these weights are the best: the variance is tr(Sigma^2) over the number of
pairs. Beyond that it varies to first order as a mean over all 2 n + N completions.
"""

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.one_pool import LEAST_COMPLETIONS, Stack, gradient_terms
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import covariance_square_trace, product_spread


def _of_blocks(pools: Pools) -> Floats:
    """The mean over blocks of each block's U-statistic, (P,); NaN where products are."""
    size = pools.largest_group
    rewards_QG, logits_QG = (
        pools.in_blocks(one_PN).reshape(-1, size)
        for one_PN in (pools.rewards_PN, pools.logit_norms2_PN)
    )
    alike_QG = (rewards_QG[..., None] == rewards_QG[:, None]).sum(-1)
    gram_QGG = pools.gram_PKGG.reshape(-1, size, size)
    stack = Stack(rewards_QG, rewards_QG, alike_QG, alike_QG, gram_QGG, logits_QG)
    terms = gradient_terms(stack)
    return np.asarray(terms.sum((-2, -1)).reshape(pools.prompts, pools.blocks).mean(-1))


def replicates_with_reference(pools: Pools) -> Floats:
    """<g_N, rbar> of each prompt, (P,), unbiased for ||g||^2."""
    centred_PN = pools.rewards_PN - pools.rewards_PN.mean(-1, keepdims=True)
    count = pools.rewards_PN.shape[-1]
    return np.asarray((centred_PN * pools.products_PN).sum(-1) / (count - 1))


def _parts(pools: Pools) -> tuple[Floats, Floats]:
    """Estimates of ||g||^2, (3, P), and the pairs that each is a mean over."""
    half, count = pools.reference_half, pools.rewards_PN.shape[-1]
    size, zeros_P = pools.largest_group, np.zeros(pools.prompts)
    blocks_P = _of_blocks(pools) if size >= LEAST_COMPLETIONS else zeros_P * np.nan
    known_P = np.isfinite(blocks_P)
    with_reference_P = replicates_with_reference(pools) if count > 1 else zeros_P
    estimates = [pools.reference_product_P, with_reference_P, np.nan_to_num(blocks_P)]
    pairs = [
        zeros_P + half**2,
        zeros_P + (2 * half * count if count > 1 else 0),
        known_P * pools.blocks * size * (size - 1) / 2,
    ]
    return np.stack(estimates), np.stack(pairs)


def gradient2_of_all(pools: Pools) -> Floats:
    """||g||^2 of each prompt, (P,), unbiased, by all products that are known."""
    estimates_3P, pairs_3P = _parts(pools)
    return np.asarray((pairs_3P * estimates_3P).sum(0) / pairs_3P.sum(0))


def first_order_share(pools: Pools) -> float:
    """The reference's share of all completions: 2 n / (2 n + N)."""
    reference = 2 * pools.reference_half
    return reference / (reference + pools.rewards_PN.shape[-1])


def noise_of_pairs(pools: Pools) -> Floats:
    """The part of the standard error that stays where g is zero, (P,)."""
    return np.sqrt(covariance_square_trace(pools) / _parts(pools)[1].sum(0))


def noise_of_all(pools: Pools) -> Floats:
    """Standard error of each prompt's ||g||^2 from the noise of completions, (P,)."""
    completions = 2 * pools.reference_half + pools.rewards_PN.shape[-1]
    first_order_P = 4 * product_spread(pools) / completions
    return np.sqrt(noise_of_pairs(pools) ** 2 + first_order_P)
