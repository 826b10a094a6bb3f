"""Checks on the spot, in every run: what would make all its numbers wrong.

- `drawn law equals differentiated law`: the log-probability that each completion was drawn
  with, against the one recomputed by the passes that are differentiated.
- `mean score zero`: E[W] = 0 holds only for completions of the very policy that is
  differentiated. The products <W_i, W_j>, i != j, of a block sum to zero on average.
- `batch invariance`: a completion alone (by plain autograd), padded, and in its block has
  the same score, in every parameter.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mse_lab.pools import Floats, Pools

# Largest tolerated difference of a completion's log-probability, in nats a token. Cached
# and whole-sequence passes round differently; sampling at top-p 0.99 shows at 0.01.
LAW_BOUNDS = {"float64": 1e-4, "float32": 1e-3, "float16": 3e-2, "bfloat16": 0.2}

# Largest tolerated relative difference of squared score norms and of products.
SCORE_BOUNDS = {"float64": 1e-4, "float32": 5e-3, "float16": 0.1, "bfloat16": 0.5}

# Probability of a false alarm of `mean score zero`.
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Check:
    """One check's outcome.

    Attributes:
        name: What was checked.
        figure: The measured number.
        bound: What it may not exceed.
        ok: Whether it holds.
        meaning: What the figure is, in words.
    """

    name: str
    figure: float
    bound: float
    ok: bool
    meaning: str

    def as_dict(self) -> dict[str, object]:
        """Give the entry of `checks.json`."""
        return asdict(self)


def _check(name: str, figure: float, bound: float, meaning: str) -> Check:
    # Written so that NaN fails.
    return Check(name, figure, bound, bool(figure <= bound), meaning)


def law_gap(drawn_N: Floats, recomputed_N: Floats, lengths_N: NDArray[np.int64]) -> float:
    """Largest |difference| of log-probabilities in nats a token."""
    return float(np.max(np.abs(drawn_N - recomputed_N) / lengths_N))


def check_drawn_law(gaps: Sequence[float], dtype: str) -> Check:
    """Compare the law that was drawn from with the law that was differentiated.

    Args:
        gaps: `law_gap` of each pool.
        dtype: The model's dtype, which sets the bound.
    """
    return _check(
        "drawn law equals differentiated law",
        float(np.max(gaps)),
        LAW_BOUNDS[dtype],
        "largest difference between drawn and recomputed log-probability, nats a token",
    )


def check_mean_score(pools: Pools) -> Check:
    """Test ||E W||^2 = 0 by the off-diagonal products inside blocks.

    Each block gives u = sum_{i<j} K_ij / sqrt(sum_{i<j} K_ij^2), of mean 0 and variance
    about 1, in the worst case (one direction carries all the scores) a centred chi-square.
    The bound is that of a mean of so many chi-squares.
    """
    rows, columns = np.triu_indices(pools.largest_group, 1)
    pairs = pools.gram_PKGG[:, :, rows, columns].reshape(-1, len(rows))
    scale = np.sqrt((pairs**2).sum(-1))
    moving = scale > 0
    count = max(1, int(moving.sum()))
    statistic = float((pairs[moving].sum(-1) / scale[moving]).sum() / np.sqrt(count))
    bound = (stats.chi2.isf(FALSE_ALARM, count) - count) / np.sqrt(2 * count)
    meaning = "standardised ||mean score||^2 over blocks, off-diagonal"
    return _check("mean score zero", statistic, float(bound), meaning)


def check_invariance(difference: float, dtype: str) -> Check:
    """Judge the largest relative difference between alone, padded and batched scores."""
    return _check(
        "batch invariance",
        difference,
        SCORE_BOUNDS[dtype],
        "largest relative difference of a completion's score alone, padded and batched",
    )


def summary(checks: Sequence[Check]) -> str:
    """Put the checks in one line for the screen."""
    parts = []
    for check in checks:
        verdict = "ok" if check.ok else "FAILED"
        parts.append(f"{check.name} {check.figure:.2g} (bound {check.bound:.2g}) {verdict}")
    return "checks: " + "; ".join(parts)
