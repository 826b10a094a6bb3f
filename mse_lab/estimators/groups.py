"""Groups: all that an estimator may look at."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats


@dataclass(frozen=True)
class Groups:
    """What an estimator may look at: R groups of G completions for each of P prompts.

    Replicate r of one prompt and replicate r of another form one batch.

    Attributes:
        rewards_PRG: Rewards.
        lengths_PRG: Tokens, end token included.
        norms2_PRG: Squared score norms ||W_i||^2.
        value_P: V of each prompt, which only an oracle knows.
        best_constant_PR: E[Z ||W||^2] / E||W||^2 of each prompt, from its other groups.
    """

    rewards_PRG: Floats
    lengths_PRG: NDArray[np.int64]
    norms2_PRG: Floats
    value_P: Floats
    best_constant_PR: Floats
