"""The KL term of Proposition 13: which of its estimators ascend E[Z] - kappa KL(pi || ref).

With r_t = pi_ref/pi of token t of completions drawn from pi itself, the means of gradients:

    K1 as a reward    W sum_t -log r_t            grad KL(pi || ref), so added to Z
    K1 as a loss      W                           0
    K3 as a loss      sum_t W_t (1 - r_t)         no token feels those after it
    K3 by TRL         sum_t W_t (-log r_t)        mu_t K3, mu_t differentiated, too

TRL's `use_bias_correction_kl` is grad KL where a completion has one token: with more, each
token's divergence is descended as if those before it had come from elsewhere. See
arXiv 2506.09477.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.studies.theory.findings import (
    ROUNDING,
    Control,
    Finding,
    at_most,
    distance,
    exactly,
    identity,
)
from mse_lab.studies.theory.proposition_13 import slope_of
from mse_lab.studies.theory.sequences import Sequences, Written

# kappa where the objective as a whole is judged.
KAPPA = 1.0

# How far from zero, where the policy is, the reference lies in every parameter; which one
# is judged.
DISTANCES, JUDGED = (0.1, 0.3, 1.0), 0.3

TERMS = ("K1 as a reward", "K1 as a loss", "K3 as a loss", "K3 by TRL")


def mean_gradient(term: str, now: Written, reference: Written) -> Floats:
    """The mean of the gradient that a term of KL descends, (D, R)."""
    logs_NTR = np.log(now.chances_NTR / reference.chances_NTR)
    weights_NTR = {
        "K1 as a reward": logs_NTR.sum(1, keepdims=True),
        "K1 as a loss": np.ones_like(logs_NTR),
        "K3 as a loss": 1 - np.exp(-logs_NTR),
        "K3 by TRL": logs_NTR,
    }[term]
    return now.mean(now.probabilities_NR, weights_NTR)


def divergence(now: Written, reference: Written) -> Floats:
    """KL(pi || ref) of completions, in nats, (R,)."""
    logs_NR = np.log(now.probabilities_NR / reference.probabilities_NR)
    return np.asarray((now.probabilities_NR * logs_NR).sum(0))


def _objective(policy: Sequences, reference: Written, theta_DR: Floats) -> Floats:
    """V - kappa KL(pi || ref), (R,)."""
    now = policy.at(theta_DR)
    return now.value_R - KAPPA * divergence(now, reference)


def compare(policy: Sequences, away: float) -> pd.DataFrame:
    """Tabulate slope and cosine of K3's means on the gradient of KL(pi || ref)."""
    now, reference = policy.at(policy.start_DR), policy.at(policy.start_DR + away)
    true, rows = mean_gradient(TERMS[0], now, reference), []
    size, where = float(np.linalg.norm(true)), (policy.choices_NT.shape[1], away)
    nats = float(divergence(now, reference)[0])
    for term in TERMS[2:]:
        mean = mean_gradient(term, now, reference)
        slope = float((mean * true).sum()) / size**2
        cosine = slope * size / float(np.linalg.norm(mean))
        rows.append((*where, nats, term, slope, cosine, distance(mean, true)))
    columns = ["tokens", "distance", "kl", "term", "slope", "cosine", "off_by"]
    return pd.DataFrame(rows, columns=columns)


def _judge_reward(policy: Sequences) -> Finding:
    """Judge Z - kappa log(pi/pi_ref) as the reward by differences of the objective."""
    start_DR = policy.start_DR
    now, reference = policy.at(start_DR), policy.at(start_DR + JUDGED)
    slope_D = slope_of(partial(_objective, policy, reference), start_DR[:, 0])
    reward, loss = (
        (now.gradient_DR - KAPPA * mean_gradient(term, now, reference))[:, 0]
        for term in TERMS[:2]
    )
    wrong = distance(loss, slope_D)
    return identity(
        f"Proposition 13, {TERMS[0]}",
        "E[W (Z - log pi/pi_ref)] off the differences of E[Z] - KL(pi || ref) by",
        distance(reward, slope_D),
        Control(f"{TERMS[1]}, off by {wrong:.2g}", wrong > 0.1),
    )


def _judge_term(row: Mapping[str, Any]) -> Finding:
    """Judge one row of the table: the mean against the gradient of KL(pi || ref)."""
    off = exactly(row["off_by"])
    number = f"{row['tokens']} token{'s' * (row['tokens'] > 1)}"
    return Finding(
        f"Proposition 13, {row['term']}, {number}",
        "its mean gradient off that of KL(pi || ref) by; slope on it "
        f"{row['slope']:.2f}, cosine {row['cosine']:.3f}",
        off,
        0.0,
        at_most(off, ROUNDING),
    )


def judge_kl(
    policy: Sequences, single: Sequences
) -> tuple[list[Finding], dict[str, pd.DataFrame]]:
    """Judge what becomes of KL in a policy of several tokens, and of a single one."""
    tables = [compare(one, away) for one in (single, policy) for away in DISTANCES]
    table = pd.concat(tables)
    # K3 of a single token is Proposition 13's own row.
    judged = (table["tokens"] > 1) | (table["term"] == TERMS[-1])
    rows = table[judged & (table["distance"] == JUDGED)].to_dict("records")
    return [_judge_reward(policy), *map(_judge_term, rows)], {"kl": table}
