"""Log ratios: how far the trainer's probabilities are from the sampler's.

The log ratio of a completion is the sum over its tokens of log p(trainer) - log p(sampler).
A weight exp(log ratio) corrects for the difference; the effective sample size says how many
unweighted completions the weighted ones are worth. TRL's default `sequence_mask` leaves out
the completions whose weight is above 3. The sum of the other weights over the number of
completions is the share of the trainer's probability that the mask keeps, and of a gradient
that does not depend on the weights. Large weights are commoner under the trainer's law than
among the completions, so the mask loses more probability than completions.
"""

import math
from typing import NamedTuple

import numpy as np

from mse_lab.trainer_logs.collect import Columns

# TRL's `vllm_importance_sampling_clip_max`.
CLIP = 3.0


class LogRatios(NamedTuple):
    """How far the trainer's probabilities are from the sampler's."""

    completions: int  # Completions with both log-probabilities.
    kl_per_token: float  # KL divergence, nats a token.
    sd: float  # Standard deviation of a completion's log ratio.
    effective: float  # Effective sample size over completions.
    masked: float  # Share of completions that TRL's `sequence_mask` leaves out.
    kept: float  # Share of the trainer's probability that it keeps.


def log_ratios(columns: Columns) -> LogRatios | None:
    """Compare both log-probabilities; None where the log has only one of them."""
    has_both_N = columns.tokens_N > 0
    if not has_both_N.any():
        return None
    ratio_N = columns.log_ratio_N[has_both_N]
    weight_N = np.exp(ratio_N - ratio_N.max())
    effective = float(weight_N.sum() ** 2 / (weight_N @ weight_N)) / len(ratio_N)
    return LogRatios(
        len(ratio_N),
        float(columns.kl_N[has_both_N].sum() / columns.tokens_N[has_both_N].sum()),
        float(ratio_N.std()),
        effective,
        float((ratio_N > math.log(CLIP)).mean()),
        float(np.exp(ratio_N[ratio_N <= math.log(CLIP)]).sum() / len(ratio_N)),
    )
