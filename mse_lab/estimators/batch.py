"""Weights that look at the other prompts of the batch: replicate r of all P prompts.

They make the errors of different prompts depend on one another. Where a prompt's own
completions stay out of its baseline (`global-mean`, `shrinkage`) each prompt is unbiased
and the mean of the cross terms is of second order; the sum of the prompts' own errors
leaves them out.

mu_k is the mean reward of prompt k's group, mu_{-x} the mean of mu_k over k != x.
"""

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from mse_lab.arrays import Floats, divide
from mse_lab.estimators.baselines import grpo
from mse_lab.estimators.groups import (
    Ddof,
    Groups,
    NonNegative,
    check_binary,
    deviations,
    spread,
)

_BATCH = (0, 2)
# The cap of the authors' code.
_LARGEST_RECIPROCAL = 1e6


def _mean_of_other_prompts(values_PR: Floats) -> Floats:
    prompts = len(values_PR)
    # Summed without x rather than subtracted, so that nothing of x is left by rounding.
    return (1.0 - np.eye(prompts)) @ values_PR / (prompts - 1)


def global_mean(groups: Groups) -> Floats:
    """w_i = Z_i - mu_{-x}: the mean reward of the other prompts as the baseline.

    Unbiased, needs P >= 2. It knows the batch's mean reward but not how hard the prompt
    is. A group of equal rewards keeps a weight; a batch of equal rewards has weight zero.
    A control, from no paper.

    With [1, 0, 0, 0] for one prompt and [1, 1, 0, 0] for the only other, mu_{-x} = 1/2 and
    the weights of the first are 1/2, -1/2, -1/2, -1/2.
    """
    rewards = groups.rewards_PRG - groups.rewards_PRG.min(_BATCH, keepdims=True)
    return rewards - _mean_of_other_prompts(rewards.mean(-1))[..., None]


def reinforce_plus_plus(
    groups: Groups, *, eps: NonNegative = 0.0, ddof: Ddof = 1
) -> Floats:
    """REINFORCE++: w_i = (Z_i - m) / (s + eps), m and s over all rewards of the batch.

    Biased: scaled by about 1/s, and the prompt's own rewards are in m and s, an effect of
    order 1/(PG) and 1/P. Public code weights m and s by tokens; here every completion
    counts once. A group of equal rewards keeps a weight; a batch of equal rewards has
    weight zero. arXiv 2501.03262.
    """
    rewards = groups.rewards_PRG
    return divide(deviations(rewards, _BATCH), spread(rewards, _BATCH, ddof) + eps)


def batch_std(groups: Groups, *, eps: NonNegative = 0.0, ddof: Ddof = 1) -> Floats:
    """w_i = (Z_i - Zbar_x) / (s + eps), the group's mean and the spread of the batch.

    Biased: nearly the direction of `centred`, since all prompts of a batch share s, and
    scaled by about 1/s. A group of equal rewards has weight zero.
    arXiv 2508.08221; TRL's `scale_rewards="batch"`, where eps is 1e-4.
    """
    rewards = groups.rewards_PRG
    return divide(deviations(rewards), spread(rewards, _BATCH, ddof) + eps)


def _shrinkage_factor(rewards_PRG: Floats) -> Floats:
    """lam_x = (P-1)/P v / (v + s), from the other prompts alone, (P, R); 0 where v = 0."""
    prompts, _, size = rewards_PRG.shape
    squares_PR = (deviations(rewards_PRG) ** 2).sum(-1)
    noise = _mean_of_other_prompts(squares_PR / (size * (size - 1)))
    means = deviations(rewards_PRG.mean(-1), 0)
    mean = _mean_of_other_prompts(means)
    between = _mean_of_other_prompts(means**2) - mean**2
    # Rounding may leave a variance below zero.
    return (prompts - 1) / prompts * divide(noise, noise + between.clip(min=0))


def shrinkage(groups: Groups) -> Floats:
    """JS2: w_i = Z_i - [(1 - lam) mean_{j != i} Z_j + lam mu_{-x}].

    That is (1 - lam) `grpo` + lam `global-mean`, with lam = (P-1)/P v / (v + s) and, over
    the prompts k != x, v the mean of sum_j (Z_kj - mu_k)^2 / (G (G-1)), which is how well
    a group's mean is known, and s the mean of (mu_k - mu_{-x})^2, how much prompts differ.

    Unbiased, needs G >= 2 and P >= 2: neither mean nor lam holds anything of completion i.
    lam = 0 where v = 0. A group of equal rewards keeps a weight unless lam = 0; a batch of
    equal rewards has weight zero. arXiv 2511.03710, equations 10 to 16.
    """
    lam = _shrinkage_factor(groups.rewards_PRG)[..., None]
    return (1 - lam) * grpo(groups) + lam * global_mean(groups)


def _reciprocal_beta_density(means_PR: Floats) -> Floats:
    """1 / Beta(mu_x; 1 + a/3, 1 + b/3), (a, b) the moment fit; 0 if all means are equal."""
    mean_1R = means_PR.mean(0, keepdims=True)
    variance_1R = spread(means_PR, 0) ** 2
    concentration = divide(mean_1R * (1 - mean_1R), variance_1R) - 1
    alpha = (1 + concentration * mean_1R / 3).clip(min=1)
    beta = (1 + concentration * (1 - mean_1R) / 3).clip(min=1)
    log_density = (
        xlogy(alpha - 1, means_PR) + xlog1py(beta - 1, -means_PR) - betaln(alpha, beta)
    )
    reciprocal = np.exp(np.minimum(-log_density, np.log(_LARGEST_RECIPROCAL)))
    return np.where(variance_1R > 0, reciprocal, 0.0)


def bnpo(groups: Groups) -> Floats:
    """BNPO: w_i = (Z_i - Zbar_x) / Beta(Zbar_x; 1 + a/3, 1 + b/3). Rewards in {0, 1}.

    Beta is the density; (a, b) fits a Beta law to all prompts' means by their mean m and
    sample variance v, a = m (m (1-m) / v - 1), b = (1-m) (m (1-m) / v - 1); both of its
    parameters are at least 1, and the reciprocal at most 1e6.

    Biased: weights prompts by their rarity, and the group's own mean is in the density.
    Needs P >= 2. A group of equal rewards has weight zero. Where all prompts' means are
    equal the law is a point, its density infinite and every weight zero, the limit of the
    formula (the authors' code gives NaN). arXiv 2506.02864.
    """
    rewards = groups.rewards_PRG
    check_binary(rewards, "bnpo")
    return deviations(rewards) * _reciprocal_beta_density(rewards.mean(-1))[..., None]
