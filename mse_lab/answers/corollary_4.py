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

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mse_lab.answers.claim import DRAWS, Case, Claim, Statement, describe
from mse_lab.answers.judgement import Judged, Pair, Verdict, holm
from mse_lab.answers.measured_run import MeasuredRun

MARGIN = 0.05

LIMIT = Statement(
    "Corollary 4",
    f"As G grows, the GRPO-type MSE comes within {MARGIN:.0%} of the oracle's.",
    f"{DRAWS}, for the ratio is 1 + zeta/(T (G-1)) exactly",
)


class Decision(NamedTuple):
    """What is said of one G, why, and by which of its comparisons."""

    verdict: Verdict
    reason: str
    by: Judged


def _p_inside(pair: Pair) -> float:
    """Two one-sided tests: the ratio is within the margin."""
    grpo, oracle = pair.first, pair.second
    below = (oracle * (1 + MARGIN)).exceeding(grpo)
    above = grpo.exceeding(oracle * (1 - MARGIN))
    return max(below.p_above_zero(), above.p_above_zero())


def _p_outside(pair: Pair) -> float:
    """Test whether the ratio is beyond the margin, on either side."""
    grpo, oracle = pair.first, pair.second
    above = grpo.exceeding(oracle * (1 + MARGIN))
    below = (oracle * (1 - MARGIN)).exceeding(grpo)
    return min(1.0, 2 * min(above.p_above_zero(), below.p_above_zero()))


def _judge(inside: float, outside: float, alpha: float) -> tuple[Verdict, float]:
    if inside < alpha:
        return "holds", inside
    if outside < alpha:
        return "fails", outside
    return "undecided", min(inside, outside)


def _compare(run: MeasuredRun, sizes: Sequence[int]) -> list[list[Judged]]:
    """Judge at each size the replicates, where there are any, then the law."""
    sources = {run.source: run.mse_of, "law": run.law_of}
    pairs = [
        Pair(size, read("grpo", size), read("oracle", size), source)
        for size in sizes
        for source, read in sources.items()
    ]
    inside, outside = (
        holm([test(one) for one in pairs]) for test in (_p_inside, _p_outside)
    )
    judged = [
        Judged(pair, *_judge(p_inside, p_outside, 1 - run.level), pair.ratio(run.level))
        for pair, p_inside, p_outside in zip(pairs, inside, outside, strict=True)
    ]
    return [[one for one in judged if one.pair.size == size] for size in sizes]


def decide_by_either(judged: Sequence[Judged]) -> Decision:
    """Let the replicates decide where they can, else the law."""
    by = next((one for one in judged if one.verdict != "undecided"), judged[-1])
    if by.verdict == "undecided":
        return Decision("undecided", "Neither replicates nor law decide.", by)
    return Decision(by.verdict, f"Decided by the {by.pair.label}.", by)


def _decide_limit(judged: Sequence[Judged]) -> Decision:
    """Judge what one G says of the limit."""
    measured, law = judged[0], judged[-1]
    if measured.verdict == "holds":
        return Decision("holds", "Within the margin by the replicates.", measured)
    if measured.verdict == "fails" and law.verdict == "holds":
        return Decision("fails", "Outside the margin where the law is inside.", measured)
    if law.verdict == "holds":
        reason = "Within the margin by the law, which the replicates do not contradict."
        return Decision("holds", reason, law)
    return Decision("undecided", "Too small a G to speak of the limit.", measured)


def near_oracle(
    run: MeasuredRun,
    case: Case,
    sizes: Sequence[int],
    decide: Callable[[Sequence[Judged]], Decision] = decide_by_either,
) -> list[Claim]:
    """Say of each group size whether GRPO-type is within the margin of the oracle."""
    rows = []
    for judged in _compare(run, sizes):
        verdict, reason, by = decide(judged)
        if case.untested:
            verdict, reason = "undecided", case.untested
        listed = ", ".join(
            f"{describe(one.ratio)} by the {one.pair.label}" for one in judged
        )
        told = f"ratio {listed}"
        rows.append(case.claim(told, verdict, reason, by.ratio, by.p_value, by.pair.size))
    return rows


def explain_distance(run: MeasuredRun) -> str:
    """Say from the moments how fast the ratio falls to one."""
    trace, zeta = run.oracle_trace.value, run.zeta.value
    if trace <= 0:
        return "The oracle's MSE is not measurably positive, so there is no ratio."
    ratio = zeta / trace
    start = 1 + int(np.ceil(ratio / MARGIN))
    return (
        f"zeta/T = {ratio:.2f}, so the ratio is 1 + {ratio:.2f}/(G-1): within {MARGIN:.0%} "
        f"from G = {max(start, 2)} on."
    )


def judge_oracle_property(run: MeasuredRun) -> list[Claim]:
    """Judge Corollary 4; the largest group size speaks for the limit."""
    rows = near_oracle(run, LIMIT.about(run), run.sizes, _decide_limit)
    last = rows[-1]
    whole = replace(
        last,
        measured=f"at G = {last.group_size}: {last.measured}{_first_equal(rows)}",
        reason=f"{explain_distance(run)} {last.reason}",
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
