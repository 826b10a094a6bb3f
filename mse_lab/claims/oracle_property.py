"""Corollary 4: as G grows, the GRPO-type MSE becomes the oracle's.

The ratio is 1 + zeta / (T (G-1)) by the exact law. At each G two one-sided tests ask
whether it lies within 5% of one: once for the replicates, paired, and once for the law at
the pool's moments, which is far narrower but takes Theorem 2 for granted. The replicates
decide where they can, else the law; Holm's correction runs over both and all group sizes.
With norms only there is the law alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mse_lab.claims.claim import Claim, Verdict, describe
from mse_lab.claims.drawn import Drawn, holm
from mse_lab.claims.evidence import Evidence
from mse_lab.intervals import Estimate

MARGIN = 0.05

STATEMENT = "Corollary 4"
SAYS = f"As G grows, the GRPO-type MSE comes within {MARGIN:.0%} of the oracle's."


class _Comparison(NamedTuple):
    """GRPO-type against oracle at one G, from one source."""

    source: str
    size: int
    grpo: Drawn
    oracle: Drawn

    def p_inside(self) -> float:
        """Two one-sided tests: the ratio is within the margin."""
        below = self.oracle * (1 + MARGIN) - self.grpo
        above = self.grpo - self.oracle * (1 - MARGIN)
        return max(below.p_above_zero(), above.p_above_zero())

    def p_outside(self) -> float:
        """Test whether the ratio is beyond the margin, on either side."""
        above = self.grpo - self.oracle * (1 + MARGIN)
        below = self.oracle * (1 - MARGIN) - self.grpo
        return min(1.0, 2 * min(above.p_above_zero(), below.p_above_zero()))


class _Judged(NamedTuple):
    comparison: _Comparison
    verdict: Verdict
    p_value: float

    def ratio(self, level: float) -> Estimate:
        """GRPO-type over oracle."""
        return (self.comparison.grpo / self.comparison.oracle).interval(level)


def _judge(inside: float, outside: float, alpha: float) -> tuple[Verdict, float]:
    if inside < alpha:
        return "holds", inside
    if outside < alpha:
        return "fails", outside
    return "undecided", min(inside, outside)


def _compare(evidence: Evidence, sizes: Sequence[int]) -> list[_Judged]:
    sources = {"replicates": evidence.mse, "law": evidence.law}
    if not evidence.has_replicates:
        del sources["replicates"]
    comparisons = [
        _Comparison(source, size, read("grpo", size), read("oracle", size))
        for size in sizes
        for source, read in sources.items()
    ]
    inside = holm([one.p_inside() for one in comparisons])
    outside = holm([one.p_outside() for one in comparisons])
    return [
        _Judged(one, *_judge(p_inside, p_outside, evidence.alpha))
        for one, p_inside, p_outside in zip(comparisons, inside, outside, strict=True)
    ]


def near_oracle(
    evidence: Evidence, sizes: Sequence[int], statement: str, says: str
) -> list[Claim]:
    """Judge at each group size whether GRPO-type is within the margin of the oracle."""
    judged = _compare(evidence, sizes)
    by_size = [[one for one in judged if one.comparison.size == size] for size in sizes]
    return [_row(evidence, found, statement, says) for found in by_size]


def _row(evidence: Evidence, judged: Sequence[_Judged], statement: str, says: str) -> Claim:
    """Let the replicates decide, else the law, which comes last."""
    decides = next((one for one in judged if one.verdict != "undecided"), judged[-1])
    listed = ", ".join(
        f"{describe(one.ratio(evidence.level))} by the {one.comparison.source}"
        for one in judged
    )
    return Claim(
        statement,
        (evidence.name,),
        says,
        f"ratio {listed}",
        decides.verdict,
        _explain_source(evidence, decides),
        group_size=decides.comparison.size,
        estimate=decides.ratio(evidence.level),
        p_value=decides.p_value,
    )


def _explain_source(evidence: Evidence, decides: _Judged) -> str:
    if decides.verdict != "undecided":
        return f"Decided by the {decides.comparison.source}."
    both = evidence.has_replicates
    return "Neither replicates nor law decide." if both else "The law does not decide."


def explain_distance(evidence: Evidence) -> str:
    """Say from the moments how fast the ratio falls to one."""
    trace, zeta = evidence.oracle_trace.value, evidence.zeta.value
    if trace <= 0:
        return "The oracle's MSE is not measurably positive, so there is no ratio."
    ratio = zeta / trace
    start = 1 + int(np.ceil(ratio / MARGIN))
    return (
        f"zeta/T = {ratio:.2f}, so the ratio is 1 + {ratio:.2f}/(G-1): within {MARGIN:.0%} "
        f"from G = {max(start, 2)} on."
    )


def judge_oracle_property(evidence: Evidence) -> list[Claim]:
    """Judge Corollary 4; the largest group size speaks for the limit."""
    rows = near_oracle(evidence, evidence.group_sizes, STATEMENT, SAYS)
    last = rows[-1]
    whole = replace(
        last,
        measured=f"at G = {last.group_size}: {last.measured}{_first_equal(rows)}",
        reason=evidence.explain(f"{explain_distance(evidence)} {last.reason}"),
        group_size=None,
    )
    return [whole, *rows]


def _first_equal(rows: Sequence[Claim]) -> str:
    """Name the size from which on equivalence is established."""
    reached = ""
    for row in reversed(rows):
        if row.verdict != "holds":
            break
        reached = f"; equivalent from G = {row.group_size} on"
    return reached
