"""Lemma 1: the GRPO-type estimator is a second-order U-statistic.

    (1/G) sum_i w_i W_i = 2/(G(G-1)) sum_{i<j} (W_i - W_j)(Z_i - Z_j) / 2

Both sides are sums of scores, so their difference is sum_i d_i W_i with d_i = w_i/G - c_i
and c_i = (1/(G(G-1))) sum_{j != i} (Z_i - Z_j); its squared norm is d'Kd. An identity:
rounding alone may separate the two, whatever the data. Without the products in K it is
bounded by (sum_i |d_i| ||W_i||)^2.
"""

from collections.abc import Callable

import numpy as np

from mse_lab.answers.claim import Claim, Verdict, for_all
from mse_lab.answers.evidence import Evidence
from mse_lab.arrays import Floats
from mse_lab.estimators.groups import Groups
from mse_lab.estimators.leave_one_out import grpo
from mse_lab.mse.grouping import form_groups, group_grams
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.pools import Pools

# Far above the rounding of sums of at most some thousand float64, far below 1/G.
ROUNDING = 1e-10

STATEMENT = "Lemma 1"
SAYS = (
    "The GRPO-type estimator equals the U-statistic with kernel (W_i - W_j)(Z_i - Z_j)/2."
)


def _pairwise_coefficients(rewards_PRG: Floats) -> Floats:
    """c_i of the U-statistic, from every pair."""
    size = rewards_PRG.shape[-1]
    pairs_PRGG = rewards_PRG[..., :, None] - rewards_PRG[..., None, :]
    return pairs_PRGG.sum(-1) / (size * (size - 1))


def largest_difference(
    pools: Pools, group_size: int, weights: Callable[[Groups], Floats] = grpo
) -> float:
    """Find the largest distance between an estimator and the pairwise form.

    Relative to (1/G) sum_i |w_i| ||W_i||, the length of what is summed: unlike
    ||g_hat||, it cannot vanish by cancellation. An upper bound with norms only.

    Args:
        pools: The pools.
        group_size: G.
        weights: The estimator; another than GRPO-type shows what the test can see.
    """
    groups = form_groups(pools, group_size)
    weights_PRG = weights(groups) / group_size
    apart_PRG = weights_PRG - _pairwise_coefficients(groups.rewards_PRG)
    norms_PRG = np.sqrt(groups.norms2_PRG)
    if pools.has_cross_products:
        gram_PRGG = group_grams(pools, group_size)
        pulled = (apart_PRG[:, :, None, :] @ gram_PRGG)[:, :, 0]
        distance = np.sqrt(np.abs((pulled * apart_PRG).sum(-1)))
    else:
        distance = (np.abs(apart_PRG) * norms_PRG).sum(-1)
    length = (np.abs(weights_PRG) * norms_PRG).sum(-1)
    relative = np.divide(distance, length, out=np.zeros_like(length), where=length > 0)
    return float(relative.max())


def judge_u_statistic(
    evidence: Evidence, weights: Callable[[Groups], Floats] = grpo
) -> list[Claim]:
    """Compare the estimator with the pairwise form in every group of every size."""
    rows = [
        _judge_size(evidence, size, largest_difference(evidence.pools, size, weights))
        for size in evidence.group_sizes
    ]
    worst = max(row.estimate.value for row in rows)
    return [
        Claim(
            STATEMENT,
            (evidence.name,),
            SAYS,
            f"largest relative difference {_bound(evidence)}{worst:.1e}, over all groups",
            for_all(row.verdict for row in rows),
            "An identity in the rewards: it holds to rounding on any data, "
            f"and {ROUNDING:g} is the bound on rounding.",
            estimate=Estimate(worst, np.nan, np.nan),
        ),
        *rows,
    ]


def _bound(evidence: Evidence) -> str:
    return "" if evidence.has_replicates else "at most "


def _judge(difference: float, *, exact: bool) -> Verdict:
    """A bound can show that nothing but rounding is there, not that there is more."""
    if difference < ROUNDING:
        return "holds"
    return "fails" if exact else "undecided"


def _judge_size(evidence: Evidence, size: int, difference: float) -> Claim:
    verdict = _judge(difference, exact=evidence.has_replicates)
    reasons: dict[Verdict, str] = {
        "holds": "Rounding alone.",
        "fails": "More than rounding.",
        "undecided": "The bound allows more than rounding.",
    }
    return Claim(
        STATEMENT,
        (evidence.name,),
        SAYS,
        f"largest relative difference {_bound(evidence)}{difference:.1e}",
        verdict,
        reasons[verdict],
        group_size=size,
        estimate=Estimate(difference, np.nan, np.nan),
    )
