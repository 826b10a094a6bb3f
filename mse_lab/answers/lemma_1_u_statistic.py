"""Lemma 1: the GRPO-type estimator is a second-order U-statistic.

    (1/G) sum_i w_i W_i = 2/(G(G-1)) sum_{i<j} (W_i - W_j)(Z_i - Z_j) / 2

Both sides are sums of scores, so their difference is sum_i d_i W_i with d_i = w_i/G - c_i
and c_i = (1/(G(G-1))) sum_{j != i} (Z_i - Z_j); its squared norm is d'Kd. An identity:
rounding alone may separate the two, whatever the data. Where products in K are unknown it
is bounded by (sum_i |d_i| ||W_i||)^2.
"""

from collections.abc import Callable

import numpy as np

from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import Claim, Statement, judges, sum_up
from mse_lab.arrays import Floats, divide
from mse_lab.estimators.baselines import grpo
from mse_lab.estimators.groups import Groups
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.pools import Pools
from mse_lab.mse.replicates import form_groups, group_grams

# Far above the rounding of sums of at most some thousand float64, far below 1/G.
ROUNDING = 1e-10

LEMMA = Statement(
    "Lemma 1",
    "The GRPO-type estimator equals the U-statistic with kernel (W_i - W_j)(Z_i - Z_j)/2.",
    would_fail="other weights than those of the leave-one-out mean",
    short="GRPO-type is a U-statistic",
    number="apart",
)


def largest_difference(
    pools: Pools, group_size: int, weights: Callable[[Groups], Floats] = grpo
) -> tuple[float, bool]:
    """Find the largest distance to the pairwise form; also whether it is exact, or a bound.

    It is relative to (1/G) sum_i |w_i| ||W_i||, the length of what is summed: unlike
    ||g_hat||, that cannot vanish by cancellation. Weights other than GRPO-type's show what
    the test can see. Without products it is a bound.
    """
    groups = form_groups(pools, group_size)
    weights_PRG = weights(groups) / group_size
    rewards_PRG = groups.rewards_PRG
    pairs_PRGG = rewards_PRG[..., :, None] - rewards_PRG[..., None, :]
    differences_PRG = weights_PRG - pairs_PRGG.sum(-1) / (group_size * (group_size - 1))
    norms_PRG = np.sqrt(groups.norms2_PRG)
    products = (differences_PRG[:, :, None, :] @ group_grams(pools, group_size))[:, :, 0]
    exact = np.sqrt(np.abs((products * differences_PRG).sum(-1)))
    bound = (np.abs(differences_PRG) * norms_PRG).sum(-1)
    distance = np.where(np.isnan(exact), bound, exact)
    length = (np.abs(weights_PRG) * norms_PRG).sum(-1)
    return float(divide(distance, length).max()), not np.isnan(exact).any()


def _judge(difference: float, exact: bool) -> tuple[str, Verdict, str]:
    measured = f"largest relative difference {'' if exact else 'at most '}{difference:.1e}"
    if difference < ROUNDING:
        return measured, "holds", "Rounding alone."
    if exact:
        return measured, "fails", "More than rounding."
    return measured, "undecided", "The bound allows more than rounding."


@judges(order=10)
def judge_u_statistic(
    run: MeasuredRun, weights: Callable[[Groups], Floats] = grpo
) -> list[Claim]:
    """Compare the estimator with the pairwise form in every group of every size."""
    case, rows = LEMMA.about(run), []
    for size in run.sizes:
        largest = largest_difference(run.pools, size, weights)
        estimate = Estimate(largest[0], np.nan, np.nan)
        rows.append(case.claim(*_judge(*largest), estimate, size=size))
    worst = max(rows, key=lambda row: row.estimate.value)
    reason = (
        "An identity in the rewards: it holds to rounding on any data, "
        f"and {ROUNDING:g} is the bound on rounding."
    )
    return sum_up(rows, worst, f"{worst.measured}, over all groups", reason)
