"""Rare tokens: do completions from elsewhere hold as many as the policy draws?

A sampler that cuts the tail (top-p, top-k, min-p), or draws at another temperature, changes
how often tokens occur whose probability is below `RARE`. The law that draws them x times as
often has the likelihood ratio

    L_x = prod_t x^[pi(y_t) < RARE] / (1 + (x - 1) m_t),   m_t = sum_{pi(v) < RARE} pi(v),

of mean 1 where pi draws the tokens, so the mean of L_x over `FACTORS` exceeds 1/alpha with
probability at most alpha (Markov's inequality), for any number of tokens. No x is near 1:
rounding errors in an engine's arithmetic are no evidence for any of them.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_logits,
    padded_tokens,
    sum_over_tokens,
)
from mse_lab.policy.policy import Policy

RARE = 0.01
FACTORS = (0.25, 0.67, 1.5, 4.0)


def _log_ratios(log_probs_NTV: Tensor, drawn_NT: Tensor) -> Iterator[Tensor]:
    """Compute what a token adds to log L_x, (N, T) for each factor."""
    probs_NTV = log_probs_NTV.exp()
    mass_NT = torch.where(probs_NTV < RARE, probs_NTV, 0).sum(-1)
    rare_NT = (drawn_NT.exp() < RARE).to(drawn_NT)
    for factor in FACTORS:
        yield math.log(factor) * rare_NT - torch.log1p((factor - 1) * mass_NT)


@torch.no_grad()
def examine_tokens(
    policy: Policy, prompt: list[int], completions: Completions, most: int | None = None
) -> tuple[Floats, Floats]:
    """Recompute log pi of each token, (N, T), and log L_x of all completions, (X,).

    T is the longest completion's length; at most `most` completions are in one pass.
    """
    prefix, tokens_NT = SharedPrefix(policy, prompt), padded_tokens(policy, completions)
    drawn, ratios = [], []
    for part_NT in tokens_NT.split(most or len(tokens_NT)):
        table = policy.log_probabilities(completion_logits(policy, prefix, part_NT))
        drawn.append(table.gather(-1, part_NT.to(table.device)[..., None])[..., 0])
        ratios.append(torch.stack([*_log_ratios(table, drawn[-1])]))
    totals_X = sum_over_tokens(torch.cat(ratios, 1).cpu().double(), completions).sum(-1)
    return torch.cat(drawn).cpu().double().numpy(), totals_X.numpy()
