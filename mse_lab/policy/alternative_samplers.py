"""Alternative samplers: did the policy, or another sampler, draw these completions?

Completions from elsewhere may have been drawn with a truncated tail, at another
temperature, after another prompt, or twice. An alternative sampler q that is built from
the policy's probabilities has the likelihood ratio

    L = prod_t q(y_t | y_<t) / pi(y_t | y_<t),    E[L] = 1 where pi draws the tokens,

so the mean L of several alternatives exceeds 1/alpha with probability at most alpha
(Markov's inequality), for any number of tokens. Most alternatives are tilted laws,

    q(v) = pi(v) e^{s f(v)} / E_pi e^{s f},

with f = log pi (another temperature), f = 1{pi(v) < p} (too few or too many rare tokens)
or f = 1{v ends the completion}. The others draw from pi, but repeat an earlier completion
of the prompt with some probability. All are far from pi on purpose: rounding errors in a
sampler's arithmetic are not evidence for any of them.
"""

import math
from collections import Counter

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.formatting import number
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_logits,
    padded_tokens,
    sum_over_tokens,
)
from mse_lab.policy.policy import Policy

# Temperatures relative to the policy's.
TEMPERATURES = (0.5, 0.7, 0.9, 1.1, 1.4, 2.0)
# Tokens of a smaller probability are rare.
RARE = (1e-2, 1e-3, 1e-4)
# How often rare tokens, or end tokens, are drawn relative to the policy.
FACTORS = (0.25, 0.67, 1.5, 4.0)
REPEATS = (0.01, 0.3)  # Shares of completions that repeat an earlier one.

_OFTEN = [f"{factor} times as often" for factor in FACTORS]
ALTERNATIVES = (
    *(f"{temperature} times the temperature" for temperature in TEMPERATURES),
    *(f"tokens of probability below {p:g}, {often}" for p in RARE for often in _OFTEN),
    *(f"end tokens {often}" for often in _OFTEN),
    *(f"{share:.0%} of the completions copied from earlier ones" for share in REPEATS),
)

# Tokens per prompt for which the tilted laws are evaluated: they cost a forward pass.
EXAMINED = 2**12
LOGITS = 2**24  # Logits in memory at once.


def _event(happened_NT: Tensor, mass_NT: Tensor) -> list[Tensor]:
    """Tilt an event that has a probability of `mass` under the policy."""
    return [math.log(x) * happened_NT - torch.log1p((x - 1) * mass_NT) for x in FACTORS]


def tilted(log_probs_NTV: Tensor, tokens_NT: Tensor, end_tokens: tuple[int, ...]) -> Tensor:
    """Compute log q - log pi of every token that was drawn, (R, N, T), for the tilted laws.

    Their exponentials are 1 on average over tokens drawn from pi.
    """
    drawn = log_probs_NTV.gather(-1, tokens_NT[..., None])[..., 0]
    tilts = [1 / temperature - 1 for temperature in TEMPERATURES]
    # The largest log-probability is at least -log V, so exp needs no shift.
    ratios = [s * drawn - ((1 + s) * log_probs_NTV).exp_().sum(-1).log() for s in tilts]
    probs_NTV, prob = log_probs_NTV.exp(), drawn.exp()
    for p in RARE:
        mass = torch.where(probs_NTV < p, probs_NTV, 0).sum(-1)
        ratios += _event((prob < p).to(drawn), mass)
    ends = torch.tensor(end_tokens, dtype=torch.long, device=tokens_NT.device)
    mass = probs_NTV[..., ends].sum(-1)
    ratios += _event(torch.isin(tokens_NT, ends).to(drawn), mass)
    return torch.stack(ratios)


def copying(completions: Completions, log_probs_N: Floats, share: float) -> float:
    """Compute log L of a sampler that sometimes repeats an earlier completion.

    If c_i of the i completions before completion i are equal to it, its ratio is
    1 - share + share c_i / (i pi(Y_i)), which is 1 on average over Y_i drawn from pi. With
    a mask pi(Y_i) leaves out the chance of an environment's tokens, at most 1: the average
    is 1 at most. The completions of a prompt are in the order in which they were drawn.
    """
    seen: Counter[bytes] = Counter()
    total = 0.0
    rows = zip(completions.keys, log_probs_N, strict=True)
    for before, (key, log_prob) in enumerate(rows):
        if seen[key]:
            copied = math.log(share * seen[key] / before) - log_prob
            total += float(np.logaddexp(math.log1p(-share), copied))
        elif before:
            total += math.log1p(-share)
        seen[key] += 1
    return total


def _choose(completions: Completions) -> Completions:
    """Choose every k-th completion, about `EXAMINED` tokens in all; the longest last."""
    step = math.ceil(int(completions.lengths_N.sum()) / EXAMINED)
    chosen = completions[::step]
    return chosen[np.argsort(chosen.lengths_N, kind="stable")]


@torch.no_grad()
def _sum_tilted(policy: Policy, prefix: SharedPrefix, batch: Completions) -> Floats:
    """Sum log L of the tilted laws over a batch of completions, (R,)."""
    tokens = padded_tokens(policy, batch)
    log_probs = policy.log_probabilities(completion_logits(policy, prefix, tokens))
    ratios = tilted(log_probs, tokens.to(log_probs.device), policy.end_tokens)
    return sum_over_tokens(ratios.double(), batch).sum(-1).cpu().numpy()


def log_likelihood_ratios(
    policy: Policy, prompt: list[int], completions: Completions, log_probs_N: Floats
) -> Floats:
    """Compute the log-likelihood ratios of `ALTERNATIVES` to the policy, (R,).

    The completions are those of both pools, with their recomputed log-probabilities. The
    tilted laws are evaluated on about `EXAMINED` tokens, spread over the completions.
    """
    chosen = _choose(completions)
    most = max(1, LOGITS // (int(chosen.lengths_N[-1]) * policy.vocabulary))
    with torch.no_grad():
        prefix = SharedPrefix(policy, prompt)
    batches = (chosen[at : at + most] for at in range(0, len(chosen), most))
    sums = [_sum_tilted(policy, prefix, batch) for batch in batches]
    copied = [copying(completions, log_probs_N, share) for share in REPEATS]
    return np.concatenate([np.sum(sums, axis=0), copied])


def describe_mismatch(log_ratios_PR: Floats) -> str:
    """Say which sampler explains the completions of a run better than the policy."""
    totals = log_ratios_PR.sum(0)
    best = int(np.argmax(totals))
    factor = f"e^{number(float(totals[best]), 4)}"
    return (
        f"the completions are not the policy's: «{ALTERNATIVES[best]}» is more likely by a "
        f"factor of {factor}; draw each completion once, after the same prompt tokens, at "
        "sampling.temperature, with top-p 1, without top-k, min-p or penalties, "
        "and with sampling.stop as the only stop strings"
    )
