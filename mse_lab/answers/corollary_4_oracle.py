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
from itertools import takewhile

import numpy as np

from mse_lab.answers.judgement import JudgedPair, Pair, decide, holm
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import DRAWS, Case, Claim, Statement, judges
from mse_lab.formatting import with_interval

MARGIN = 0.05

LIMIT = Statement(
    "Corollary 4",
    f"As G grows, the GRPO-type MSE comes within {MARGIN:.0%} of the oracle's.",
    f"{DRAWS}, for the ratio is 1 + zeta/(T (G-1)) exactly",
    short="the oracle's for large G",
    number="group's/oracle",
)


# Chooses which of its comparisons speaks for one G, with the verdict, and says why.
Choose = Callable[[Sequence[JudgedPair]], tuple[JudgedPair, str]]


def _test(pair: Pair) -> tuple[float, float]:
    """Test whether the ratio is beyond the margin, on either side, and within it."""
    grpo, oracle = pair.first, pair.second
    sides = ((oracle * (1 + MARGIN)).exceeding(grpo), grpo.exceeding(oracle * (1 - MARGIN)))
    outside = min(1.0, 2 * min((side * -1.0).p_above_zero() for side in sides))
    return outside, max(side.p_above_zero() for side in sides)


def _compare(run: MeasuredRun, sizes: Sequence[int]) -> list[list[JudgedPair]]:
    """Judge at each size the replicates, where there are any, then the law."""
    sources = {run.source: run.mse_of, "law": run.law_of}
    pairs = [
        Pair(size, read("grpo", size), read("oracle", size), source)
        for size in sizes
        for source, read in sources.items()
    ]
    outside, inside = (holm(p_values) for p_values in zip(*map(_test, pairs), strict=True))
    judged, alpha = [], 1 - run.level
    for pair, p_outside, p_inside in zip(pairs, outside, inside, strict=True):
        verdict = decide(p_outside < alpha, p_inside < alpha)
        judged.append(pair.with_verdict(verdict, min(p_outside, p_inside), run.level))
    return [[result for result in judged if result.pair.size == size] for size in sizes]


def decide_by_either(judged: Sequence[JudgedPair]) -> tuple[JudgedPair, str]:
    """Let the replicates decide where they can, else the law."""
    for result in judged:
        if result.verdict != "undecided":
            return result, f"Decided by the {result.pair.label}."
    return judged[-1], "Neither replicates nor law decide."


def _decide_limit(judged: Sequence[JudgedPair]) -> tuple[JudgedPair, str]:
    measured, law = judged[0], judged[-1]
    if measured.verdict == "holds":
        return measured, "Within the margin by the replicates."
    if measured.verdict == "fails" and law.verdict == "holds":
        return measured, "Outside the margin where the law is inside."
    if law.verdict == "holds":
        return law, "Within the margin by the law, which the replicates do not contradict."
    return measured._replace(verdict="undecided"), "Too small a G to speak of the limit."


def near_oracle(
    run: MeasuredRun, case: Case, sizes: Sequence[int], choose: Choose = decide_by_either
) -> list[Claim]:
    """Say of each group size whether GRPO-type is within the margin of the oracle."""
    rows = []
    for judged in _compare(run, sizes):
        (pair, verdict, p_value, ratio), reason = choose(judged)
        if case.untested:
            verdict, reason = "undecided", case.untested
        listed = (
            f"{with_interval(result.ratio)} by the {result.pair.label}" for result in judged
        )
        measured = f"ratio {', '.join(listed)}"
        rows.append(case.claim(measured, verdict, reason, ratio, p_value, pair.size))
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


@judges(order=40)
def judge_oracle_property(run: MeasuredRun) -> list[Claim]:
    """Judge Corollary 4; the largest group size speaks for the limit."""
    rows = near_oracle(run, LIMIT.about(run), run.sizes, _decide_limit)
    last, equal = rows[-1], list(takewhile(lambda row: row.verdict == "holds", rows[::-1]))
    start = f"; equivalent from G = {equal[-1].group_size} on" if equal else ""
    whole = replace(
        last,
        measured=f"at G = {last.group_size}: {last.measured}{start}",
        reason=f"{explain_distance(run)} {last.reason}",
        group_size=None,
    )
    return [whole, *rows]
