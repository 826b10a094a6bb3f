"""Rivals: has another law than the policy drawn these completions?

Completions from elsewhere may have been drawn with the tail cut off, at another
temperature, after another prompt, or twice. A rival law q that is built from the policy's
own probabilities has the likelihood ratio

    L = prod_t q(y_t | y_<t) / pi(y_t | y_<t),    E[L] = 1 where pi draws the tokens,

so that the mean of several rivals' L exceeds 1/alpha with probability alpha at most, by
Markov: at any number of tokens, without a limit theorem. Rivals are tilted laws,

    q(v) = pi(v) e^{s f(v)} / E_pi e^{s f},

with f = log pi (another temperature), f = 1{pi(v) < p} (rare tokens left out, or too many
of them) and f = 1{v ends the completion}; and copying, which draws from pi but repeats an
earlier completion of the prompt with some probability. None is near to pi: rounding in a
sampler's arithmetic is no evidence for any, however many the tokens.
"""

import math
from collections import Counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.policy.completions import Completions, SharedPrefix, completion_logits
from mse_lab.policy.policy import Policy

# Temperatures, relative to the policy's.
TEMPERATURES = (0.5, 0.7, 0.9, 1.1, 1.4, 2.0)

# Tokens below these probabilities are rare.
RARE = (1e-2, 1e-3, 1e-4)

# How often a rare token, or an end token, is drawn, relative to the policy.
FACTORS = (0.25, 0.67, 1.5, 4.0)

# Shares of completions that repeat earlier ones.
REPEATS = (0.01, 0.3)

RIVALS = (
    *(f"{temperature} times the temperature" for temperature in TEMPERATURES),
    *(
        f"tokens of probability below {p:g}, {x} times as often"
        for p in RARE
        for x in FACTORS
    ),
    *(f"end tokens {x} times as often" for x in FACTORS),
    *(f"{share:.0%} of the completions copied from earlier ones" for share in REPEATS),
)

# Tokens of a prompt that the tilted rivals are put to; each costs a part of a forward pass.
EXAMINED = 2**12

# Logits held at once.
LOGITS = 2**24


def _temperatures(log_probs_NTV: Tensor, own_NT: Tensor) -> list[Tensor]:
    exponents = [1 / temperature - 1 for temperature in TEMPERATURES]
    # The likeliest token's log-probability is -log V at least: no need of a maximum.
    return [s * own_NT - ((1 + s) * log_probs_NTV).exp_().sum(-1).log() for s in exponents]


def _event(happened_NT: Tensor, mass_NT: Tensor) -> list[Tensor]:
    """Tilt an event that has a probability of `mass` under the policy."""
    return [
        math.log(factor) * happened_NT - torch.log1p((factor - 1) * mass_NT)
        for factor in FACTORS
    ]


def tilted(log_probs_NTV: Tensor, tokens_NT: Tensor, end_tokens: tuple[int, ...]) -> Tensor:
    """Compute log q - log pi of every token, for the tilted rivals.

    Args:
        log_probs_NTV: log pi of the whole vocabulary.
        tokens_NT: The tokens that were drawn.
        end_tokens: Ids that end a completion.

    Returns:
        Log-ratios (R, N, T), whose exponentials are 1 on average over tokens drawn from pi.
    """
    own = log_probs_NTV.gather(-1, tokens_NT[..., None])[..., 0]
    ratios = _temperatures(log_probs_NTV, own)
    probs_NTV, prob = log_probs_NTV.exp(), own.exp()
    for p in RARE:
        mass = torch.where(probs_NTV < p, probs_NTV, 0).sum(-1)
        ratios += _event((prob < p).to(own), mass)
    ends = torch.tensor(end_tokens, dtype=torch.long, device=tokens_NT.device)
    mass = probs_NTV[..., ends].sum(-1)
    ratios += _event(torch.isin(tokens_NT, ends).to(own), mass)
    return torch.stack(ratios)


def copying(
    completions: Completions, log_probs_N: NDArray[np.float64], share: float
) -> float:
    """Compute the log-ratio of a law that repeats an earlier completion now and then.

    Of completion i, with c_i the same among the i before it, the ratio is
    1 - share + share c_i / (i pi(Y_i)), which is 1 on average over Y_i drawn from pi.

    Args:
        completions: The completions of a prompt.
        log_probs_N: Their log-probabilities under the policy.
        share: Probability of repeating one.
    """
    seen: Counter[bytes] = Counter()
    total = 0.0
    rows = zip(completions.tokens_NT, completions.lengths_N, log_probs_N, strict=True)
    for before, (tokens, length, log_prob) in enumerate(rows):
        own = tokens[:length].tobytes()
        if seen[own]:
            copied = math.log(share * seen[own] / before) - log_prob
            total += float(np.logaddexp(math.log1p(-share), copied))
        elif before:
            total += math.log1p(-share)
        seen[own] += 1
    return total


def _choose(completions: Completions) -> NDArray[np.int64]:
    """Choose completions from all over the pools, the longest last."""
    mean = completions.lengths_N.mean()
    step = math.ceil(len(completions) * mean / EXAMINED)
    chosen = np.arange(0, len(completions), step)
    return chosen[np.argsort(completions.lengths_N[chosen], kind="stable")]


def _batches(lengths_N: NDArray[np.int64], vocabulary: int) -> list[slice]:
    """Cut completions, the longest last, so that a batch's logits are few."""
    batches, start = [], 0
    for stop, length in enumerate(lengths_N):
        if stop > start and (stop + 1 - start) * int(length) * vocabulary > LOGITS:
            batches.append(slice(start, stop))
            start = stop
    return [*batches, slice(start, len(lengths_N))]


@torch.no_grad()
def _sum_tilted(
    policy: Policy,
    prefix: SharedPrefix,
    tokens_NT: NDArray[np.int64],
    lengths_N: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Sum the tilted rivals' log-ratios over a batch of completions, (R,)."""
    tokens = torch.from_numpy(tokens_NT).to(policy.device)
    logits = completion_logits(policy, prefix, tokens)
    log_probs = policy.log_probabilities(logits)
    ratios = tilted(log_probs, tokens.to(logits.device), policy.end_tokens)
    positions = torch.arange(tokens.shape[1], device=logits.device)
    own = positions < torch.from_numpy(lengths_N).to(logits.device)[:, None]
    return torch.where(own, ratios, 0).double().sum((1, 2)).cpu().numpy()


def rival_ratios(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    log_probs_N: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Put a prompt's completions to every rival.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: All its completions, of both pools.
        log_probs_N: Their log-probabilities under the policy, recomputed.

    Returns:
        log L (R,), in order of `RIVALS`; of the tilted ones for the first `EXAMINED` tokens
        or so, spread over the completions.
    """
    chosen = _choose(completions)
    tokens_NT, lengths_N = completions.tokens_NT[chosen], completions.lengths_N[chosen]
    with torch.no_grad():
        prefix = SharedPrefix(policy, prompt)
    vocabulary = policy.model.get_input_embeddings().weight.shape[0]
    sums = [
        _sum_tilted(policy, prefix, tokens_NT[rows, : lengths_N[rows][-1]], lengths_N[rows])
        for rows in _batches(lengths_N, vocabulary)
    ]
    copied = [copying(completions, log_probs_N, share) for share in REPEATS]
    return np.concatenate([np.sum(sums, axis=0), copied])


def warn_of_rival(log_ratios_PR: NDArray[np.float64]) -> str:
    """Say which law is likelier than the policy to have drawn the completions of a run."""
    totals = log_ratios_PR.sum(0)
    best = int(np.argmax(totals))
    return (
        "the completions are not the policy's: likelier, by a factor of "
        f"e^{totals[best]:.4g}, is «{RIVALS[best]}»; draw them after the same prompt "
        "tokens, each once, at sampling.temperature, with top-p 1 and without top-k, "
        "min-p, penalties or stop strings"
    )
