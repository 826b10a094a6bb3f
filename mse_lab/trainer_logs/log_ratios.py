"""Log ratios: how far the trainer's probabilities are from those that were drawn from.

Of a completion the log ratio is the sum over its tokens of log p(trainer) - log p(sampler).
A weight exp(log ratio) corrects for the difference; the effective sample size says how many
unweighted completions the weighted are worth. TRL's default `sequence_mask` masks the
completions whose weight is above 3: the mean of the other weights is the share of the
trainer's probability, and so of a gradient that does not depend on it, that is kept. It is
of the trainer's law, under which large weights are commoner than among the completions.
"""

import math
from typing import NamedTuple

import numpy as np

from mse_lab.trainer_logs.collect import Columns

# TRL's `vllm_importance_sampling_clip_max`.
CLIP = 3.0


class LogRatios(NamedTuple):
    """How far the trainer's probabilities are from the sampler's."""

    completions: int  # Completions with both.
    kl_per_token: float  # KL divergence, nats a token.
    sd: float  # Standard deviation of a completion's log ratio.
    effective: float  # Effective sample size over completions.
    masked: float  # Share of completions that TRL's `sequence_mask` leaves out.
    kept: float  # Share of the trainer's probability that it keeps.


def log_ratios(columns: Columns) -> LogRatios | None:
    """Compare both log-probabilities; None where a log has only one."""
    known = columns.tokens_N > 0
    if not known.any():
        return None
    ratio_N = columns.log_ratio_N[known]
    weight_N = np.exp(ratio_N - ratio_N.max())
    effective = float(weight_N.sum() ** 2 / (weight_N @ weight_N)) / len(ratio_N)
    return LogRatios(
        int(known.sum()),
        float(columns.kl_N[known].sum() / columns.tokens_N[known].sum()),
        float(ratio_N.std()),
        effective,
        float((ratio_N > math.log(CLIP)).mean()),
        float(np.exp(ratio_N[ratio_N <= math.log(CLIP)]).sum() / len(ratio_N)),
    )
