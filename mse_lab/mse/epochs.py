"""Epochs: what training feels of the prompts' noise where each prompt comes once an epoch.

Near a maximum, along a direction of curvature lambda, steps of length eta are

    theta <- q theta + eta noise,   q = 1 - eta lambda = exp(-pull).

The noise of completions is drawn anew at every step. That of prompts is dealt out: over an
epoch of T = P/B steps it adds up to zero. So of the variance c1/B of a step the end of an
epoch has, with weights q^s of the steps s = 0, ..., T - 1 that lie behind it,

    [sum_s q^2s - (sum_s q^s)^2 / T]  instead of  sum_s q^2s,

which is the share 1 - tanh(pull T/2) / (T tanh(pull/2)) of it, after one epoch as after
many; after the first m < T steps it has tanh(pull m/2) in the numerator. With N = B G
completions a step, N/P of each prompt, T = G P/N, and c1 G of the error becomes

    c1 (G - (N/P) tanh(pull m/2) / tanh(pull/2)),   m = min(T, steps of the training).

Long steps, which forget the ones before, have c1 (G - N/P): no prompt's noise but that of
prompts which are not in the step. Of short ones, which forget nothing, there is none while
G is no larger than K, the completions that each prompt gets in all of the training, and
c1 (G - K) beyond. In between it is about c1 (G - k tanh(G/k)), k = 2 N/(P pull). The best
size, 1 + sqrt(c3/c1) for prompts drawn anew, is larger by that, and depends on N.

It is the reward of the prompts that are trained on; another one's has a constant more. How
prompts differ in their curvature is left out: it moves the mean, and not with G.
"""

import math

import numpy as np

from mse_lab.arrays import Floats

# Sizes among which the best one is looked for, each 0.1% larger than the one before.
_SIZES = np.geomspace(1.001, 4096, 8320)


def charged_size(
    sizes: Floats | float, each_step: float, steps: float, pull: float
) -> Floats:
    """Give what stands in the place of G in c1 G.

    Short steps; each prompt gets 32 completions in all:

    >>> charged_size(np.array([8.0, 80.0]), 0.5, 64, 1e-5).round(4)
    array([ 0., 48.])

    Args:
        sizes: G.
        each_step: N/P, completions of each prompt in a step.
        steps: Of all of the training.
        pull: -log(1 - eta lambda).
    """
    sizes = np.asarray(sizes, dtype=float)
    steps_m = np.minimum(sizes / each_step, steps)
    told = each_step * np.tanh(pull * steps_m / 2) / math.tanh(pull / 2)
    return np.asarray(np.maximum(sizes - told, 0.0))


def best_in_epochs(best: float, each_step: float, steps: float, pull: float) -> float:
    """Give the best group size, with the noise of prompts dealt out as in `charged_size`.

    Of prompts that are drawn anew the best is G* = 1 + sqrt(c3/c1), 1 to infinity.
    """
    if best <= 1 or math.isinf(best):
        return best
    charged = charged_size(_SIZES, each_step, steps, pull)
    return max(best, float(_SIZES[np.argmin(charged + (best - 1) ** 2 / (_SIZES - 1))]))
