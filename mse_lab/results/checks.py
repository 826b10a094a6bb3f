"""Built-in checks, made in every run: each finds a fault that spoils all its numbers.

- `drawn law equals differentiated law`: the log-probability that each completion was drawn
  with, against the one recomputed by the passes that are differentiated; its figure is the
  largest difference, in nats a token.
- `mean score zero`: E[W] = 0 holds only for completions of the very policy that is
  differentiated; the figure is the standardised ||mean score||^2, off-diagonal.
- `completions are the policy's`: rare tokens are as frequent in completions from elsewhere
  as the policy draws them (`run/supplied.py`); the figure is the log-likelihood ratio,
  over the policy, of laws with other numbers of rare tokens.
- `one pass equals autograd`: the gradient of the first prompt that an advice gets along
  with the inner products, against a pass of plain autograd; relative distance.
- `batch invariance`: a completion alone (by plain autograd), padded, and in its block has
  the same score, in every parameter; largest relative difference.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.formatting import number

if TYPE_CHECKING:
    from mse_lab.mse.pools import Pools

# Largest tolerated difference of a completion's log-probability, in nats a token. Cached
# and whole-sequence passes round differently; sampling at top-p 0.99 shows at 0.01.
LAW_BOUNDS = {"float64": 1e-4, "float32": 1e-3, "float16": 3e-2, "bfloat16": 0.2}

# Largest tolerated relative difference of squared score norms and of products.
SCORE_BOUNDS = {"float64": 1e-4, "float32": 5e-3, "float16": 0.1, "bfloat16": 0.5}

# Added to each size, as a share of the median: the smallest scores count for less.
LEAST_SIZE = 0.1

# Largest squared distance of two scores that count as equal, over the sum of their squared
# norms.
EQUAL = 1e-5

# Probability of a false alarm of `mean score zero` and of `completions are the policy's`.
FALSE_ALARM = 1e-6

DRAWN_LAW = "drawn law equals differentiated law"
MEAN_SCORE = "mean score zero"
RARE_TOKENS = "completions are the policy's"
INVARIANCE = "batch invariance"
ONE_PASS = "one pass equals autograd"


@dataclass(frozen=True)
class Check:
    """One check's outcome: a figure, and the bound it may not exceed.

    Where the check could not be made, there is no figure, and `ok` is None.
    """

    name: str
    figure: float | None
    bound: float
    ok: bool | None


@dataclass(frozen=True)
class Checks:
    """What `checks.json` holds; `ok` where none of the checks failed."""

    ok: bool
    checks: list[Check]
    warnings: list[str] = field(default_factory=list)
    # Digests of the files that answers are read from, as the run wrote them.
    seals: dict[str, str] = field(default_factory=dict)


def none_failed(checks: Iterable[Check]) -> bool:
    """Whether none of the checks failed; one that could not be made has not."""
    return not any(check.ok is False for check in checks)


def _check(name: str, figure: float | None, bound: float) -> Check:
    # Written so that NaN fails.
    ok = None if figure is None else bool(figure <= bound)
    return Check(name, figure, bound, ok)


def check_drawn_law(gaps: Sequence[float], dtype: str) -> Check:
    """Judge the `law_gap` of each pool by the model's dtype; no gaps, no check."""
    return _check(DRAWN_LAW, float(np.max(gaps)) if gaps else None, LAW_BOUNDS[dtype])


def _weights_of_blocks(gram_PKGG: Floats) -> Floats:
    """Weigh each block by the size of scores in the prompt's other blocks, (P, K)."""
    norms2_PK = gram_PKGG.diagonal(axis1=-2, axis2=-1).mean(-1)
    others_PK = (norms2_PK.sum(1, keepdims=True) - norms2_PK) / (norms2_PK.shape[1] - 1)
    sizes_PK = others_PK + LEAST_SIZE * np.median(others_PK)
    return divide(1, sizes_PK)


def check_mean_score(pools: "Pools") -> Check:
    """Test ||E W||^2 = 0 by the products of different scores inside blocks.

    With weights w_b and q_b = w_b^2 sum_{i<j} K_ij^2 over block b's pairs the figure is

        sum_b w_b sum_{i<j} K_ij / sqrt(sum_b q_b),

    of mean 0 and variance about 1, in the worst case (one direction carries all the scores
    of a block) a mean of (sum q)^2 / sum q^2 centred chi-squares, which give the bound.
    Weights bring prompts to one scale, but none depends on its own block: where a policy is
    nearly sure, most blocks hold one completion of a small score, balanced by that of a
    rare one in another block, and on their own scale the former would count for more. A
    block of one distinct completion has met no rare one and says nothing. Pairs that were
    not scored together are NaN and left out. Where nothing is left, no check is made.
    """
    from scipy import stats

    rows, columns = np.triu_indices(pools.largest_group, 1)
    pairs = pools.gram_PKGG[:, :, rows, columns].astype(np.float64)
    norms2 = pools.gram_PKGG.diagonal(axis1=-2, axis2=-1)
    both = norms2[..., rows] + norms2[..., columns]
    # ||W_i - W_j||^2; of equal scores it is zero to the rounding of float32, their type.
    varied_PK = (both - 2 * pairs > EQUAL * both).any(-1)
    weighted = np.nan_to_num(pairs) * _weights_of_blocks(pools.gram_PKGG)[..., None]
    weighted = weighted[varied_PK]
    squares = (weighted**2).sum(-1)
    total = squares.sum()
    figure = float(divide(weighted.sum(), np.sqrt(total)))
    count = max(1.0, float(divide(total**2, (squares**2).sum())))
    bound = float((stats.chi2.isf(FALSE_ALARM, count) - count) / np.sqrt(2 * count))
    return _check(MEAN_SCORE, figure if varied_PK.any() else None, bound)


def check_rare_tokens(log_ratios_PX: Floats) -> Check:
    """Test whether another law of rare tokens is likelier than the policy's.

    Where the policy drew the completions, the mean of the laws' likelihood ratios over the
    whole run has the expectation 1. So its logarithm exceeds the bound with probability
    `FALSE_ALARM` at most (Markov's inequality).
    """
    totals_X = log_ratios_PX.sum(0)
    figure = float(np.logaddexp.reduce(totals_X) - np.log(len(totals_X)))
    return _check(RARE_TOKENS, figure, float(-np.log(FALSE_ALARM)))


def check_scores(name: str, difference: float, dtype: str) -> Check:
    """Judge a relative difference of scores, `INVARIANCE` or `ONE_PASS`."""
    return _check(name, difference, SCORE_BOUNDS[dtype])


def summary(checks: Sequence[Check]) -> str:
    """Summarise the checks in one line for the screen, with figures unless all hold."""
    if all(check.ok for check in checks):
        return f"checks: all {len(checks)} hold"
    parts = []
    for check in checks:
        verdict = "ok" if check.ok else "FAILED"
        figures = "" if check.figure is None else f"{number(check.figure, 2)} "
        outcome = f"{figures}(bound {number(check.bound, 2)}) {verdict}"
        parts.append(f"{check.name} {'not made' if check.ok is None else outcome}")
    return "checks: " + "; ".join(parts)
