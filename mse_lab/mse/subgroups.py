"""Sub-groups: what a loss makes of graded rewards in groups of G, by a block of N > G.

For rewards of more than two values there is no law of few numbers (`laws.py`). But any G of
the N completions of a block are a group, so the mean over such sub-groups s is unbiased
(a U-statistic). With the weights w_i(s) that the estimator gives, by rewards alone, zero
outside of s, and K the block's Gram matrix,

    E||g_hat||^2   mean over s of w(s)' K w(s) / G^2
    h = E g_hat    sum_i omega_i W_i, omega_i the mean over s of w_i(s) / G

and since E[W] = 0 the sum of w(s) may be taken off evenly from the completions outside of
s, so that the omega sum to zero. With a_ij the mean of w_i(s) over the s that hold i and
not j, and b_ij the mean reward but for i and j,

    <h, g>         mean over i != j of a_ij (Z_j - b_ij) K_ij
    ||h||^2        mean over i != j of a_ij a_ji K_ij

The last is too large by the spread of a loss's mean given the other rewards of a group,
which for weights linear in the reward is zero. Only where prompts are a set does it count,
with a weight of one over their number. Products of h between prompts have no bias.

Given the rewards, completions of one reward are drawn alike: what is summed over them may
multiply the mean of those that were differentiated, and equal rewards may share an omega.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats, Ints, divide
from mse_lab.data.streams import stream
from mse_lab.estimators import Estimator
from mse_lab.estimators.groups import Groups
from mse_lab.mse.one_pool import PromptSample, fold

# All sub-groups up to here, else some as many at random: of 16 completions in groups of 8
# they raise the variance of the mean by less than 1%.
MOST = 1000


@lru_cache(maxsize=256)
def subgroups(completions: int, size: int) -> Ints:
    """List sub-groups of a block, (S, G): indices that depend on these numbers alone.

    Those at random come of permutations, each cut into as many as it has room for.

    >>> subgroups(3, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    if comb(completions, size) <= MOST:
        return np.array(list(combinations(range(completions), size)))
    rng, each = stream(0, "sub-groups", f"{size} of {completions}"), completions // size
    orders = np.tile(np.arange(completions), (-(-MOST // each), 1))
    return rng.permuted(orders, axis=1)[:, : each * size].reshape(-1, size)


class BlockFigures(NamedTuple):
    """What a loss makes of a block in groups of a size."""

    second: float  # E||g_hat||^2.
    inner: float  # <h, g>.
    norm2: float  # ||h||^2.
    weights_N: Floats  # Omega: h = sum_i omega_i W_i; equal rewards have equal ones.


class _Gram:
    """The Gram matrix of a block, averaged over the completions of each reward."""

    def __init__(self, sample: PromptSample) -> None:
        values = np.unique(sample.rewards_N)[:, None]
        self.alike_VN = (values == sample.rewards_N).astype(float)
        alike_VK = self.alike_VN[:, sample.scored_K]
        norms2_K, counts_V = np.diagonal(sample.gram_KK), alike_VK.sum(1)
        self._norms2_V = alike_VK @ norms2_K / counts_V
        apart_VV = alike_VK @ (sample.gram_KK - np.diag(norms2_K)) @ alike_VK.T
        self._products_VV = divide(
            apart_VV, np.outer(counts_V, counts_V) - np.diag(counts_V)
        )

    def squares(self, factors_N: Floats) -> float:
        """Sum factors times ||W_i||^2."""
        return float(self.alike_VN @ factors_N @ self._norms2_V)

    def products(self, factors_NN: Floats) -> float:
        """Sum factors times <W_i, W_j> over i != j."""
        apart_NN = factors_NN - np.diag(np.diagonal(factors_NN))
        return float((self.alike_VN @ apart_NN @ self.alike_VN.T * self._products_VV).sum())

    def mean_of_alike(self, values_N: Floats) -> Floats:
        """Give completions of one reward their mean."""
        return np.asarray((self.alike_VN @ values_N / self.alike_VN.sum(1)) @ self.alike_VN)


def figures_of_block(sample: PromptSample, estimator: Estimator, size: int) -> BlockFigures:
    """Evaluate an estimator of the rewards in groups of fewer than the N completions."""
    rewards_N, count = sample.rewards_N, sample.completions
    index_SG, gram = subgroups(count, size), _Gram(sample)
    groups = Groups.of_rewards(rewards_N[index_SG])
    inside_SN, weights_SN = np.zeros((2, len(index_SG), count))
    np.put_along_axis(inside_SN, index_SG, 1.0, axis=1)
    np.put_along_axis(weights_SN, index_SG, estimator.weights(groups)[0], axis=1)
    outside_SN, total = 1 - inside_SN, len(index_SG)
    products_NN = weights_SN.T @ weights_SN / (total * size**2)
    moved_N = weights_SN.sum(1) @ outside_SN / (count - size)
    means_N = (weights_SN.sum(0) - moved_N) / (total * size)
    means_NN = divide(weights_SN.T @ outside_SN, inside_SN.T @ outside_SN)
    pairs = count * (count - 1)
    others_NN = (rewards_N.sum() - rewards_N[:, None] - rewards_N) / max(count - 2, 1)
    return BlockFigures(
        second=gram.squares(np.diagonal(products_NN)) + gram.products(products_NN),
        inner=gram.products(means_NN * (rewards_N - others_NN)) / pairs,
        norm2=gram.products(means_NN * means_NN.T) / pairs,
        weights_N=gram.mean_of_alike(means_N),
    )


class PromptFigures(NamedTuple):
    """What a loss makes of a prompt; h is folded, as in `PromptSample.weighted_sum`."""

    second: float
    inner: float
    norm2: float
    mean_F: NDArray[np.floating]  # h.


def figures_of_prompt(
    blocks: Sequence[PromptSample],
    shares: Floats,
    gradient_F: NDArray[np.floating],
    estimator: Estimator,
    size: int,
) -> PromptFigures | None:
    """Evaluate an estimator by the blocks of a prompt that have more completions than G.

    Args:
        blocks: All of the prompt's blocks.
        shares: Of each in the prompt's completions.
        gradient_F: The sum over blocks of their shares of gradients, folded.
        estimator: Of the rewards alone.
        size: G.

    Returns:
        Averages over these blocks; None without any.
    """
    index = [at for at, block in enumerate(blocks) if block.completions > size]
    if not index:
        return None
    large, shares_B = [blocks[at] for at in index], shares[index]
    for block in large:
        if (estimator, size) not in block.kept:
            block.kept[estimator, size] = figures_of_block(block, estimator, size)
    figures: list[BlockFigures] = [block.kept[estimator, size] for block in large]
    pairs = zip(large, figures, strict=True)
    means_BF = np.stack([block.weighted_sum(one.weights_N) for block, one in pairs])
    weights_B = shares_B / shares_B.sum()
    second_B, inner_B, norm2_B = np.array([one[:3] for one in figures]).T
    # Products of two blocks have no bias; instead of one's with itself stand its figures.
    norm2_B -= [mean_F @ mean_F for mean_F in means_BF]
    inner_B -= [
        mean_F @ fold(block.gradient_D)
        for mean_F, block in zip(means_BF, large, strict=True)
    ]
    mean_F = weights_B @ means_BF
    return PromptFigures(
        second=weights_B @ second_B,
        inner=mean_F @ gradient_F + (weights_B * shares_B) @ inner_B,
        norm2=mean_F @ mean_F + weights_B**2 @ norm2_B,
        mean_F=mean_F,
    )


class LossFigures(NamedTuple):
    """What a loss makes of P prompts, h(x) the mean of one group."""

    second_P: Floats
    inner_P: Floats
    norm2_P: Floats
    # Sums over the other prompts x' of <h(x), h(x')>, <h(x), g(x')> and <g(x), h(x')>.
    products_P: Floats
    with_gradients_P: Floats
    of_gradients_P: Floats
