"""A reward less a baseline: of the prompt, of the group's mean, or b* plugged in.

A baseline b(x) that does not look at the group leaves the estimate unbiased, with the MSE
(E[(Z - b)^2 ||W||^2] - ||g||^2) / G, least at b* = E[Z ||W||^2] / E||W||^2 (Greensmith,
Bartlett and Baxter 2004; Weaver and Tao 2001). So does one from the group that leaves
completion i out. `grpo` and `centred` differ by the factor (G-1)/G, and by nothing else.
Between them lies `affine`, alpha + lambda times the mean of the others, whose MSE is exact
(`mse/laws.py`) and whose best two numbers are fitted (`mse/baseline.py`). In a plugged-in
b* ||W||^2 is measured, or the logits' norm or the length stands for it (`norm-weighted`).
"""

from typing import Literal

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError
from mse_lab.estimators.groups import Groups, Number, deviations


def vanilla(groups: Groups) -> Floats:
    """REINFORCE without a baseline, w_i = Z_i.

    Unbiased. A group without reward has weight zero; a group with equal rewards keeps
    them. Table 1 of arXiv 2603.01162.
    """
    return groups.rewards_PRG


def oracle(groups: Groups) -> Floats:
    """The baseline that knows the value: w_i = Z_i - V(x).

    Unbiased, for V of completions drawn apart from the group, as here. Not the least MSE
    among constants unless ||W||^2 and Z are uncorrelated given the prompt. A group of
    equal rewards keeps a weight unless they are V. Table 1 of arXiv 2603.01162.
    """
    return groups.rewards_PRG - groups.value_P[:, None, None]


def best_constant(groups: Groups) -> Floats:
    """The constant baseline of least MSE: w_i = Z_i - b*, b* = E[Z ||W||^2] / E||W||^2.

    Unbiased: b* comes from the other groups of the prompt. What learning it adds to the
    MSE is taken off the errors (`replicates.py`). A group of equal rewards keeps a weight
    unless they are b*.
    Greensmith, Bartlett and Baxter 2004.
    """
    return groups.rewards_PRG - groups.best_constant_PR[:, :, None]


def grpo(groups: Groups) -> Floats:
    """GRPO-type, also RLOO: w_i = Z_i - mean_{j != i} Z_j = G/(G-1) (Z_i - Zbar).

    Unbiased, needs G >= 2; a group of equal rewards has weight zero. Exactly the
    second-order U-statistic with kernel (W_i - W_j)(Z_i - Z_j) / 2.
    arXiv 2603.01162, equation 4 and Lemma 1; arXiv 2402.14740.

    With rewards [1, 0, 0, 0] the weights are 1, -1/3, -1/3, -1/3.
    """
    size = groups.rewards_PRG.shape[-1]
    return size / (size - 1) * deviations(groups.rewards_PRG)


def affine(groups: Groups, *, alpha: Number, lambda_: Number) -> Floats:
    """Part of the others' mean: w_i = Z_i - alpha - lambda mean_{j != i} Z_j.

    Unbiased; needs G >= 2 unless lambda = 0. (0, 0) is `vanilla`, (0, 1) `grpo`. A group of
    equal rewards keeps a weight unless they are alpha / (1 - lambda), or lambda = 1 and
    alpha = 0. Ours.

    With rewards [1, 0, 0, 0], alpha = 1/2 and lambda = 1/4 the weights are 1/2 and -7/12
    thrice.
    """
    # The others' mean is Z_i less GRPO-type's weight.
    part = lambda_ * grpo(groups) if lambda_ else 0.0
    return (1 - lambda_) * groups.rewards_PRG + part - alpha


def constant(groups: Groups, *, alpha: Number) -> Floats:
    """One baseline for all prompts: w_i = Z_i - alpha, `affine` with lambda = 0.

    Unbiased, for an alpha that was fitted elsewhere, at G = 1 too. A group of equal rewards
    keeps a weight unless they are alpha. Greensmith, Bartlett and Baxter 2004.
    """
    return groups.rewards_PRG - alpha


def centred(groups: Groups) -> Floats:
    """Dr. GRPO: w_i = Z_i - Zbar, the group's own mean as the baseline.

    Biased: its mean is (G-1)/G times the gradient, exactly, for the completion's own
    reward is in its baseline. A group of equal rewards has weight zero. arXiv 2503.20783.

    With rewards [1, 0, 0, 0] the weights are 3/4, -1/4, -1/4, -1/4.
    """
    return deviations(groups.rewards_PRG)


Weight = Literal["score", "logits", "length"]
Over = Literal["group", "batch"]


def _stand_in(groups: Groups, weight: Weight) -> Floats:
    """What stands for ||W_j||^2, (P, R, G)."""
    if weight == "score":
        return groups.norms2_PRG
    if weight == "length":
        return groups.lengths_PRG.astype(np.float64)
    norms2 = groups.logit_norms2_PRG
    if norms2 is None or np.isnan(norms2).any():
        raise InputError(
            "estimators: norm-weighted needs the norms of the logits' scores, which were "
            f"not recorded; measure again with {COMMAND_PREFIX} run PROBE --fresh"
        )
    return norms2


def _sum_of_others(values_PRG: Floats, over: Over) -> Floats:
    """Sum over the group's or the batch's other completions, (P, R, G)."""
    # Summed without i rather than subtracted, so that nothing of i is left by rounding.
    own = values_PRG @ (1.0 - np.eye(values_PRG.shape[-1]))
    if over == "group":
        return own
    return own + ((1.0 - np.eye(len(values_PRG))) @ values_PRG.sum(-1))[..., None]


def norm_weighted(
    groups: Groups, *, weight: Weight = "score", over: Over = "group"
) -> Floats:
    """Plug-in of b*: w_i = Z_i - sum_{j != i} s_j Z_j / sum_{j != i} s_j.

    The weight s_j is ||W_j||^2 itself (`score`), or stands for it: the squared norm of the
    logits' score, sum_t (1 - 2 p_y + sum_v p_v^2), from the forward pass alone (`logits`),
    or the `length`. The others are those of the group, or of the batch, all prompts'.

    Unbiased; needs G >= 2, over the batch P >= 2. Where all others weigh nothing the plain
    mean of their rewards takes its place. A group, over the batch a batch, of equal rewards
    has weight zero. After Greensmith, Bartlett and Baxter 2004 and arXiv 2505.23585; verl's
    optimal token baseline is a relative, by token.

    With rewards [1, 0, 0, 0] and s = 1, 2, 3, 4 the weights are 1, -1/8, -1/7, -1/6.
    """
    axes = -1 if over == "group" else (0, 2)
    rewards = groups.rewards_PRG - groups.rewards_PRG.min(axes, keepdims=True)
    by, count = _stand_in(groups, weight), _sum_of_others(np.ones_like(rewards), over)
    plain = _sum_of_others(rewards, over) / count
    weighted, total = _sum_of_others(by * rewards, over), _sum_of_others(by, over)
    return rewards - divide(weighted, total, otherwise=plain)


def best_constant_loo(groups: Groups) -> Floats:
    """`norm-weighted` over the group by score: b* plugged in from the others.

    Unbiased, needs G >= 2; a group of equal rewards has weight zero.
    """
    return norm_weighted(groups, weight="score")


def opo_loo(groups: Groups) -> Floats:
    """`norm-weighted` over the group by length: OPO from the others.

    Unbiased, needs G >= 2; a group of equal rewards has weight zero.
    """
    return norm_weighted(groups, weight="length")


def opo(groups: Groups) -> Floats:
    """OPO: w_i = Z_i - sum_j l_j Z_j / sum_j l_j, lengths in the place of ||W_j||^2.

    Biased, for the completion itself is in its baseline: exactly by the factor (G-1)/G
    where all lengths are equal, and else not even along the gradient. A group of equal
    rewards has weight zero. arXiv 2505.23585.

    With rewards [1, 0, 0, 0] and lengths 1, 2, 3, 4 the weights are 9/10 and -1/10 thrice.
    """
    rewards = groups.rewards_PRG - groups.rewards_PRG.min(-1, keepdims=True)
    lengths = groups.lengths_PRG.astype(np.float64)
    baseline = (lengths * rewards).sum(-1, keepdims=True) / lengths.sum(-1, keepdims=True)
    return rewards - baseline
