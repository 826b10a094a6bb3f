"""Epochs: the cost of the prompts' noise where each prompt occurs once in an epoch.

Near a maximum, along a direction of curvature lambda, steps of length eta are

    theta <- q theta + eta noise,   q = 1 - eta lambda = exp(-pull).

The noise of completions is drawn anew at every step. The noise of prompts adds up to zero
over an epoch of T = P/B steps. At the end of an epoch the step s steps ago has the weight
q^s, s = 0, ..., T - 1. So the variance c1/B of a step enters with the factor

    [sum_s q^2s - (sum_s q^s)^2 / T]  instead of  sum_s q^2s,

that is with the share 1 - tanh(pull T/2) / (T tanh(pull/2)), after one epoch as after many;
after the first m < T steps the numerator is tanh(pull m/2). With N = B G completions a
step, N/P of each prompt, T = G P/N, and the term c1 G of the error becomes

    c1 (G - (N/P) tanh(pull m/2) / tanh(pull/2)),   m = min(T, steps of the training).

For long steps, which forget the ones before, it is c1 (G - N/P): only prompts that are not
in the step add noise. For short steps, which forget nothing, it is zero up to G = K, the
completions that each prompt gets in the whole training, and c1 (G - K) above. In between it
is about c1 (G - k tanh(G/k)), k = 2 N/(P pull). So the best size is larger than the
1 + sqrt(c3/c1) of prompts drawn anew, and depends on N.

This is for the reward on the prompts that are trained on; the reward on others has a
further term that does not depend on G. Differences of curvature between prompts are left
out: they shift the mean, by an amount that does not depend on G.
"""

import math

import numpy as np

from mse_lab.arrays import Floats


def charged_size(
    sizes: Floats | float, each_step: float, steps: float, pull: float
) -> Floats:
    """Compute the factor of c1 that replaces G.

    With short steps, and 32 completions of each prompt in all:

    >>> charged_size(np.array([8.0, 80.0]), 0.5, 64, 1e-5).round(4)
    array([ 0., 48.])

    Args:
        sizes: G.
        each_step: N/P, completions of each prompt in a step.
        steps: Number of steps of the training.
        pull: -log(1 - eta lambda).
    """
    sizes = np.asarray(sizes, dtype=float)
    steps_m = np.minimum(sizes / each_step, steps)
    cancelled = each_step * np.tanh(pull * steps_m / 2) / math.tanh(pull / 2)
    return np.asarray(np.maximum(sizes - cancelled, 0.0))
