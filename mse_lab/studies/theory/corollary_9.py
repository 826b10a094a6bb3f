"""Corollary 9: the weights of GRPO-type's limit approach the oracle's as G grows.

Exactly, Cov_GRPO - Cov_oracle = E[Var(Z) E WW' + g g'] / (B G (G-1)). Where Hess J and the
noise share their directions, so do all weights: (w_GRPO - w_oracle) G (G-1) is constant;
elsewhere their sum is, and each of them converges.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.bandit import Point
from mse_lab.studies.theory.findings import Control, Finding, distance, identity
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.noise import noise_of

SIZES = tuple(range(2, 17))

LISTED = (2, 3, 4)  # Sizes of which all groups are listed: up to 6^4 of them per prompt.


def enumerated_within(point: Point, estimator: str, size: int) -> Floats:
    """Covariance given the prompt, averaged over prompts, every ordered group listed."""
    prompts, actions = point.probabilities_PK.shape
    groups_RG = np.array(list(product(range(actions), repeat=size)))
    total = np.zeros(point.mean_outer(point.rewards_PK).shape)
    for x in range(prompts):
        rewards_RG = point.rewards_PK[x][groups_RG]
        chances_R = point.probabilities_PK[x][groups_RG].prod(-1)
        ones = np.ones_like(rewards_RG)[None]
        best_R = point.moments.best_baseline[x] * ones[..., 0]
        groups = Groups(rewards_RG[None], ones, ones, point.value_P[x : x + 1], best_R)
        weights_RG = find_estimator(estimator).weights(groups)[0]
        drawn_RD = np.einsum("rg,rgd->rd", weights_RG, point.scores_PKD[x][groups_RG])
        apart_RD = drawn_RD / size - point.gradients_PD[x]
        total += np.einsum("r,rd,re->de", chances_R, apart_RD, apart_RD)
    return total / prompts


def _judge_covariance(limit: Limit) -> Finding:
    peak = limit.bandit.peak
    pairs, off, wrong = noise_of("grpo", peak).pairs_DD, [], []
    for size in LISTED:
        grpo, oracle = (enumerated_within(peak, name, size) for name in ("grpo", "oracle"))
        off.append(distance((grpo - oracle) * size * (size - 1), pairs))
        wrong.append(distance((grpo - oracle) * size**2, pairs))
    return identity(
        "Corollary 9, covariances",
        "Cov_GRPO - Cov_oracle, all groups of 2, 3, 4 listed, off its formula by",
        max(off),
        Control(f"G^2 in the place of G(G-1), off by {min(wrong):.2g}", min(wrong) > 0.1),
    )


def _differences(limit: Limit, dropped: int = 1) -> Floats:
    """(w_GRPO - w_oracle) G (G - dropped) at each size, (G, K)."""
    rows = []
    for size in SIZES:
        grpo, oracle = (limit.weights(Rule(name, 1, size)) for name in ("grpo", "oracle"))
        rows.append((grpo - oracle) * size * (size - dropped))
    return np.array(rows)


def _spread(values_GK: Floats) -> float:
    return float(np.ptp(values_GK, axis=0).max() / np.abs(values_GK).max())


def _curves(name: str, differences_GK: Floats) -> Iterator[pd.DataFrame]:
    """Tabulate each weight's difference, and their sum's, over those of the last size."""
    weights = {str(k): values_G for k, values_G in enumerate(differences_GK.T)}
    for weight, values in {**weights, "sum": differences_GK.sum(-1)}.items():
        columns = {"group_size": SIZES, "relative": values / values[-1]}
        yield pd.DataFrame({"bandit": name, "weight": weight, **columns})


def judge_corollary_9(aligned: Limit, turned: Limit) -> tuple[list[Finding], pd.DataFrame]:
    """Test it on a bandit whose noise has the Hessian's directions, and on another."""
    each, other = _differences(aligned), _differences(turned)
    wrong = _spread(_differences(aligned, 0))
    control = Control(f"G^2 in the place of G(G-1), spread {wrong:.2g}", wrong > 0.1)
    protocol = "spread of (w_GRPO - w_oracle) G(G-1) over G = 2 to 16"
    sums = _spread(other.sum(-1, keepdims=True))
    findings = [
        _judge_covariance(turned),
        identity("Corollary 9, each weight, two actions", protocol, _spread(each), control),
        identity("Corollary 9, sum of weights, six actions", protocol, sums, control),
    ]
    return findings, pd.concat([*_curves("two", each), *_curves("six", other)])
