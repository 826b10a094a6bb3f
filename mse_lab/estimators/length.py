"""Length normalisation, a dial of its own: what multiplies the weight of a completion.

    none         1: the score is the sum over tokens, as in arXiv 2603.01162
    sequence     1 / l_i: the mean over tokens, the original GRPO (arXiv 2402.03300)
    token        G / sum_j l_j over the group: every token counts the same
    token-batch  P G / sum_{x,j} l_xj over the batch: DAPO (arXiv 2503.14476), TRL's default

All but `none` change the target, so they count as biased, whatever they are applied to.
"""

from typing import Literal

from mse_lab.arrays import Floats, Ints

Length = Literal["none", "sequence", "token", "token-batch"]


def normalise_length(weights_PRG: Floats, lengths_PRG: Ints, length: Length) -> Floats:
    """Multiply weights w_i by the factor of a length normalisation, given tokens l_i >= 1.

    >>> import numpy as np
    >>> weights, lengths = np.ones((1, 1, 2)), np.array([[[1, 3]]])
    >>> normalise_length(weights, lengths, "sequence").tolist()
    [[[1.0, 0.3333333333333333]]]
    >>> normalise_length(weights, lengths, "token").tolist()
    [[[0.5, 0.5]]]
    """
    match length:
        case "none":
            return weights_PRG
        case "sequence":
            return weights_PRG / lengths_PRG
        case "token":
            return weights_PRG / lengths_PRG.mean(-1, keepdims=True)
        case "token-batch":
            return weights_PRG / lengths_PRG.mean((0, 2), keepdims=True)
