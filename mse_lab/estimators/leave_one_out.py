"""The group's mean as the baseline, without the completion's own reward or with it.

    grpo     w_i = Z_i - mean_{j != i} Z_j = G/(G-1) (Z_i - Zbar)
    centred  w_i = Z_i - Zbar

The two differ by the factor (G-1)/G, and by nothing else.
"""

from mse_lab.arrays import Floats
from mse_lab.estimators.deviations import deviations
from mse_lab.estimators.groups import Groups


def grpo(groups: Groups) -> Floats:
    """GRPO-type, also RLOO: w_i = Z_i - mean_{j != i} Z_j = G/(G-1) (Z_i - Zbar).

    Unbiased, needs G >= 2; a group of equal rewards has weight zero. Exactly the
    second-order U-statistic with kernel (W_i - W_j)(Z_i - Z_j) / 2.
    arXiv 2603.01162, equation 4 and Lemma 1; arXiv 2402.14740.

    With rewards [1, 0, 0, 0] the weights are 1, -1/3, -1/3, -1/3.
    """
    size = groups.rewards_PRG.shape[-1]
    return size / (size - 1) * deviations(groups.rewards_PRG)


def centred(groups: Groups) -> Floats:
    """Dr. GRPO: w_i = Z_i - Zbar, the group's own mean as the baseline.

    Biased: its mean is (G-1)/G times the gradient, exactly, for the completion's own
    reward is in its baseline. A group of equal rewards has weight zero. arXiv 2503.20783.

    With rewards [1, 0, 0, 0] the weights are 3/4, -1/4, -1/4, -1/4.
    """
    return deviations(groups.rewards_PRG)
