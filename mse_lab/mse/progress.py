"""Progress: what a gradient's error does to a step of training.

A step of length eta along an estimate with error E = MSE / ||g||^2 gains, to second order
and with curvature kappa in the directions that count,

    gain(eta) = eta ||g||^2 - (eta^2 kappa / 2) ||g||^2 (1 + E).

At the best step of each estimator, eta* = 1 / (kappa (1 + E)), the gain is
||g||^2 / (2 kappa) x 1/(1 + E). So a step makes the share 1/(1 + E) of the progress that
the true gradient would. With N completions a step E = ns/N, ns the noise scale
(arXiv 1812.06162, in completions), so that

    progress             N / (N + ns)
    steps at G over H    (N + ns(G)) / (N + ns(H))
    best step size       in proportion to 1 / (1 + E): SGD's; of Adam, which divides by the
                         root of the second moment, to its square root

A biased or rescaled estimator makes <g, E g_hat>^2 / (||g||^2 E||g_hat||^2) of it. All
three are ratios of the costs of `loss.py`: progress = N ||g||^2 / cost(G, N).
"""

import math

import numpy as np

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.mse.intervals import Estimate, falling
from mse_lab.mse.loss import Aim
from mse_lab.mse.prompt_samples import raise_to_zero
from mse_lab.mse.prompt_table import PromptTable


def noise_scale(table: PromptTable, aim: Aim, level: float) -> Estimate:
    """Completions a step at which the error E is one: half of the progress is made.

    Without an upper end where ||g||^2 is not measurably positive.
    """
    inverse = divide(aim.signal, aim.noise)
    return falling(table.estimate(inverse, level), -1)


def progress(table: PromptTable, aim: Aim, completions: float, level: float) -> Estimate:
    """Share of the possible progress that a step of N completions makes, from 0 to 1."""
    if aim.cosine2 is None:
        scale = noise_scale(table, aim, level)
        ends = (scale.value, scale.high, scale.low)
        return Estimate(*(completions / (completions + end) for end in ends))
    ratio = divide(aim.noise, completions * aim.signal, LARGEST)
    share = divide(aim.cosine2, 1 + ratio)
    shares = table.estimate(share, level)
    return Estimate(*(min(max(one, 0.0), 1.0) for one in shares))


def ratio_of_costs(table: PromptTable, top: Floats, base: Floats, level: float) -> Estimate:
    """Estimate the ratio of two costs, paired over the prompts; infinite: no bound."""
    # A cost that is not positive, as of a sample of prompts, tells nothing of the ratio.
    efficiency = np.clip(divide(base, top, LARGEST), 0, LARGEST)
    share = table.estimate_positive(efficiency, level)
    ends = (share.value, share.high, share.low)
    return Estimate(*(1 / end if end > 0 else math.inf for end in ends))


def steps_ratio(
    table: PromptTable, top: Aim, base: Aim, completions: float, level: float
) -> Estimate:
    """Steps with one estimator and size over those with another, at N completions a step.

    Of two unbiased ones the ratio lies between 1 and that of the completions (N = 0). That
    is all that is known where ||g||^2 is not significantly positive: the value is NaN.
    """
    ratio, limit = (
        ratio_of_costs(table, top.cost(one), base.cost(one), level)
        for one in (completions, 0.0)
    )
    if not completions or top.cosine2 is not None or base.cosine2 is not None:
        return ratio
    if not table.knows_gradient(level):
        return Estimate(math.nan, min(limit.low, 1.0), max(limit.high, 1.0))
    return Estimate(
        ratio.value,
        max(ratio.low, min(limit.low, 1.0)),
        min(ratio.high, max(limit.high, 1.0)),
    )


def step_size_ratio(
    table: PromptTable,
    old: tuple[Aim, float],
    new: tuple[Aim, float],
    level: float,
    *,
    adam: bool,
) -> Estimate:
    """By what factor the best step size changes between two (estimator at G, N).

    (1 + E_old) / (1 + E_new) for SGD, its square root for Adam, where both have weights of
    one scale. Between 1 and the ratio of the errors, which is all that is known where
    ||g||^2 is not significantly positive.
    """
    errors = [aim.noise / completions for aim, completions in (old, new)]
    signals = [aim.signal for aim, _ in (old, new)]
    limit = table.estimate_positive(divide(*errors), level)
    # An error that is not above its noise may be estimated below zero, a ratio with it.
    low, high = min(max(limit.low, 0.0), 1.0), max(limit.high, 1.0)
    second = [
        error + raise_to_zero(signal) for error, signal in zip(errors, signals, strict=True)
    ]
    ratio = table.estimate_positive(divide(*second), level)
    if table.knows_gradient(level):
        low, high = max(ratio.low, low), min(ratio.high, high)
    power = 0.5 if adam else 1.0
    value = min(max(ratio.value, low), high)
    return Estimate(value**power, low**power, high**power)
