"""Baselines that do not look at the group: w_i = Z_i - b(x). Unbiased, for any b.

MSE (E[(Z - b)^2 ||W||^2] - ||g||^2) / G, least at b* = E[Z ||W||^2] / E||W||^2
(Greensmith, Bartlett and Baxter 2004; Weaver and Tao 2001).
"""

from mse_lab.arrays import Floats
from mse_lab.estimators.groups import Groups


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
