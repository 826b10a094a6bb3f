"""Corollary 4: as G grows, the GRPO-type MSE becomes the oracle's.

The ratio is 1 + zeta / (T (G-1)) by the exact law. At each G two one-sided tests ask
whether it lies within 5% of one: once for the replicates, paired, and once for the law at
the pool's moments, which is far narrower but takes Theorem 2 for granted. Holm's correction
runs over both and all group sizes.

A limit is no statement about a small G. It holds where replicates, or the law that they
do not contradict, are inside the margin at the largest G; it fails where replicates are
outside while the law says inside; else the run is too small for it, and the law says which
G would do. Without replicates nothing is decided.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mse_lab.answers.claim import Claim, Verdict, describe
from mse_lab.answers.evidence import UNTESTED, Evidence
from mse_lab.answers.judgement import holm
from mse_lab.mse.intervals import Estimate, Statistic

MARGIN = 0.05

STATEMENT = "Corollary 4"
SAYS = f"As G grows, the GRPO-type MSE comes within {MARGIN:.0%} of the oracle's."


class _Comparison(NamedTuple):
    """GRPO-type against oracle at one G, from one source."""

    source: str
    size: int
    grpo: Statistic
    oracle: Statistic

    def p_inside(self) -> float:
        """Two one-sided tests: the ratio is within the margin."""
        below = (self.oracle * (1 + MARGIN)).exceeding(self.grpo)
        above = self.grpo.exceeding(self.oracle * (1 - MARGIN))
        return max(below.p_above_zero(), above.p_above_zero())

    def p_outside(self) -> float:
        """Test whether the ratio is beyond the margin, on either side."""
        above = self.grpo.exceeding(self.oracle * (1 + MARGIN))
        below = (self.oracle * (1 - MARGIN)).exceeding(self.grpo)
        return min(1.0, 2 * min(above.p_above_zero(), below.p_above_zero()))


class _Judged(NamedTuple):
    comparison: _Comparison
    verdict: Verdict
    p_value: float

    def ratio(self, level: float) -> Estimate:
        """GRPO-type over oracle."""
        ratio = self.comparison.grpo / self.comparison.oracle
        return ratio.interval(level, positive=True)


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


def _by_size(evidence: Evidence, sizes: Sequence[int]) -> dict[int, list[_Judged]]:
    judged = _compare(evidence, sizes)
    return {size: [one for one in judged if one.comparison.size == size] for size in sizes}


def near_oracle(
    evidence: Evidence, sizes: Sequence[int], statement: str, says: str
) -> list[Claim]:
    """Judge at each group size whether GRPO-type is within the margin of the oracle.

    The replicates decide where they can, else the law, unless there are none.
    """
    return [
        _row(evidence, judged, _decide(evidence, judged), statement, says)
        for judged in _by_size(evidence, sizes).values()
    ]


def _decide(evidence: Evidence, judged: Sequence[_Judged]) -> tuple[Verdict, str, _Judged]:
    decides = next((one for one in judged if one.verdict != "undecided"), judged[-1])
    if not evidence.has_replicates:
        return "undecided", UNTESTED, decides
    if decides.verdict == "undecided":
        return "undecided", "Neither replicates nor law decide.", decides
    return decides.verdict, f"Decided by the {decides.comparison.source}.", decides


def _row(
    evidence: Evidence,
    judged: Sequence[_Judged],
    decision: tuple[Verdict, str, _Judged],
    statement: str,
    says: str,
) -> Claim:
    verdict, reason, decides = decision
    listed = ", ".join(
        f"{describe(one.ratio(evidence.level))} by the {one.comparison.source}"
        for one in judged
    )
    return Claim(
        statement,
        (evidence.name,),
        says,
        f"ratio {listed}",
        verdict,
        reason,
        group_size=decides.comparison.size,
        estimate=decides.ratio(evidence.level),
        p_value=decides.p_value,
    )


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


def _decide_limit(
    evidence: Evidence, judged: Sequence[_Judged]
) -> tuple[Verdict, str, _Judged]:
    """Judge what one G says of the limit."""
    if not evidence.has_replicates:
        return "undecided", UNTESTED, judged[-1]
    measured, law = judged
    if measured.verdict == "holds":
        return "holds", "Within the margin by the replicates.", measured
    if measured.verdict == "fails" and law.verdict == "holds":
        return "fails", "Outside the margin where the law is inside.", measured
    if law.verdict == "holds":
        reason = "Within the margin by the law, which the replicates do not contradict."
        return "holds", reason, law
    return "undecided", "Too small a G to speak of the limit.", measured


def judge_oracle_property(evidence: Evidence) -> list[Claim]:
    """Judge Corollary 4; the largest group size speaks for the limit."""
    rows = [
        _row(evidence, judged, _decide_limit(evidence, judged), STATEMENT, SAYS)
        for judged in _by_size(evidence, evidence.group_sizes).values()
    ]
    last = rows[-1]
    whole = replace(
        last,
        measured=f"at G = {last.group_size}: {last.measured}{_first_equal(rows)}",
        reason=f"{explain_distance(evidence)} {last.reason}",
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
