"""Rival laws: has another law, and not the policy, drawn these completions?

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

from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import own_tokens, sum_own_tokens
from mse_lab.policy.policy import Policy
from mse_lab.policy.shared_prefix import SharedPrefix, completion_logits

# Temperatures, relative to the policy's; probabilities below which tokens are rare; how
# often these, or end tokens, are drawn, relative to the policy; shares of completions that
# repeat earlier ones.
TEMPERATURES = (0.5, 0.7, 0.9, 1.1, 1.4, 2.0)
RARE = (1e-2, 1e-3, 1e-4)
FACTORS = (0.25, 0.67, 1.5, 4.0)
REPEATS = (0.01, 0.3)

_OFTEN = [f"{factor} times as often" for factor in FACTORS]
RIVALS = (
    *(f"{temperature} times the temperature" for temperature in TEMPERATURES),
    *(f"tokens of probability below {p:g}, {often}" for p in RARE for often in _OFTEN),
    *(f"end tokens {often}" for often in _OFTEN),
    *(f"{share:.0%} of the completions copied from earlier ones" for share in REPEATS),
)

# Tokens of a prompt that the tilted rivals are put to, each of which costs a part of a
# forward pass; logits held at once.
EXAMINED, LOGITS = 2**12, 2**24


def _temperatures(log_probs_NTV: Tensor, own_NT: Tensor) -> list[Tensor]:
    exponents = [1 / temperature - 1 for temperature in TEMPERATURES]
    # The likeliest token's log-probability is -log V at least: no need of a maximum.
    return [s * own_NT - ((1 + s) * log_probs_NTV).exp_().sum(-1).log() for s in exponents]


def _event(happened_NT: Tensor, mass_NT: Tensor) -> list[Tensor]:
    """Tilt an event that has a probability of `mass` under the policy."""
    return [math.log(x) * happened_NT - torch.log1p((x - 1) * mass_NT) for x in FACTORS]


def tilted(log_probs_NTV: Tensor, tokens_NT: Tensor, end_tokens: tuple[int, ...]) -> Tensor:
    """Compute log q - log pi of every token that was drawn, (R, N, T), for tilted rivals.

    Their exponentials are 1 on average over tokens drawn from pi.
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
    1 - share + share c_i / (i pi(Y_i)), which is 1 on average over Y_i drawn from pi. Their
    log-probabilities under the policy are recomputed.
    """
    seen: Counter[bytes] = Counter()
    total = 0.0
    rows = zip(completions.own_tokens, log_probs_N, strict=True)
    for before, (tokens, log_prob) in enumerate(rows):
        own = tokens.tobytes()
        if seen[own]:
            copied = math.log(share * seen[own] / before) - log_prob
            total += float(np.logaddexp(math.log1p(-share), copied))
        elif before:
            total += math.log1p(-share)
        seen[own] += 1
    return total


def _choose(completions: Completions) -> Completions:
    """Choose completions from all over the pools, the longest last."""
    step = math.ceil(int(completions.lengths_N.sum()) / EXAMINED)
    chosen = completions[::step]
    return chosen[np.argsort(chosen.lengths_N, kind="stable")]


@torch.no_grad()
def _sum_tilted(
    policy: Policy, prefix: SharedPrefix, batch: Completions
) -> NDArray[np.float64]:
    """Sum the tilted rivals' log-ratios over a batch of completions, (R,)."""
    tokens = own_tokens(policy, batch)
    log_probs = policy.log_probabilities(completion_logits(policy, prefix, tokens))
    ratios = tilted(log_probs, tokens.to(log_probs.device), policy.end_tokens)
    return sum_own_tokens(ratios.double(), batch).sum(-1).cpu().numpy()


def rival_ratios(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    log_probs_N: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Put a prompt's completions, of both pools, to every rival.

    Returns:
        log L (R,), in order of `RIVALS`; of the tilted ones for `EXAMINED` tokens or so,
        spread over the completions. `log_probs_N` are recomputed, under the policy.
    """
    chosen = _choose(completions)
    most = max(1, LOGITS // (int(chosen.lengths_N[-1]) * policy.vocabulary))
    with torch.no_grad():
        prefix = SharedPrefix(policy, prompt)
    batches = (chosen[at : at + most] for at in range(0, len(chosen), most))
    sums = [_sum_tilted(policy, prefix, batch) for batch in batches]
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
