"""Theorem 7: at a budget N = B G the best group size is free of N.

    N x MSE = c1 G + c2 + c3/(G-1),  least at G* = 1 + sqrt(c3/c1)

The paper's sqrt(c3/c1) is the form for large G. c1 comes from the reference gradients; the
other two terms are measured by the replicates as G times their mean MSE, and the size that
is best by the law is set against every other size of the run. c1 is common to both sides
and held at its estimate; its own interval over prompts is that of G*.

That N does not appear is a property of the formula, once Proposition 3 holds. No curve at a
fixed policy can be evidence for or against it; what ties the best G to N is training in
epochs (mse_lab/README.md).
"""

from collections.abc import Sequence

import numpy as np

from mse_lab.answers.judgement import Pair, for_all
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import DRAWS, FEW_PROMPTS, Claim, Statement, judges
from mse_lab.formatting import with_interval
from mse_lab.mse.budget import mse_times_budget
from mse_lab.mse.intervals import Statistic

BEST = Statement(
    "Theorem 7 (best group size)",
    "At a fixed budget N = BG the best group size is G* = 1 + sqrt(c3/c1).",
    DRAWS,
    short="best G is 1 + sqrt(c3/c1)",
    number="G*",
)
FREE = Statement(
    "Theorem 7 (independent of N)",
    "G* does not depend on N.",
    "nothing: N x MSE = c1 G + c2 + c3/(G-1) holds no N",
    short="the best G does not depend on N",
    number="G*",
)
BUDGETS = (256, 1024, 4096)


def _measured(run: MeasuredRun, size: int) -> Statistic:
    """N x MSE: c1 G, and G times the mean MSE of a prompt by the replicates."""
    between = float(run.population.constants.c1.item())
    noise = run.mse_of("grpo", size) * (size * run.pools.prompts)
    return noise + Statistic(between * size, {}, {})


def _best_measured(run: MeasuredRun, sizes: Sequence[int]) -> int:
    return min(sizes, key=lambda size: _measured(run, size).value)


def _best_by_law(run: MeasuredRun) -> int:
    sizes = np.array(run.sizes)
    return int(sizes[np.argmin(mse_times_budget("grpo", run.population.constants, sizes))])


@judges(order=80)
def judge_best_group_size(run: MeasuredRun) -> list[Claim]:
    """Judge Theorem 7: the measured optimum, then its independence of N."""
    if run.pools.prompts < 3:
        cases = [statement.about(run) for statement in (BEST, FREE)]
        return [claim for case in cases for claim in case.undecided(*FEW_PROMPTS)]
    return [*_judge_best(run), _judge_independence(run)]


def _judge_best(run: MeasuredRun) -> list[Claim]:
    """Judge whether another size beats the best by the law, which needs sizes around it."""
    case, best, sizes = BEST.about(run), _best_by_law(run), run.sizes
    # By the law alone the best size by the law would be set against itself.
    rows = [] if case.untested else _compare_with(run, best)
    verdict = for_all(row.verdict for row in rows)
    inside = min(sizes) < best < max(sizes)
    minimum_seen = np.isfinite(run.best_group_size.high) and inside
    constants = ", ".join(
        f"{name} {with_interval(run.constants[name])}" for name in ("c1", "c2", "c3")
    )
    whole = case.claim(
        f"{constants}; G* {with_interval(run.best_group_size)}",
        verdict if minimum_seen or verdict == "fails" else "undecided",
        _explain(run, case.untested, inside),
        run.best_group_size,
        max((row.p_value or 0.0 for row in rows), default=None),
    )
    return [whole, *rows]


def _compare_with(run: MeasuredRun, best: int) -> list[Claim]:
    least, pairs, shown = _measured(run, best), [], []
    for size in (size for size in run.sizes if size != best):
        other = _measured(run, size)
        label = f"N x MSE at G = {size} over that at G = {best}:"
        pairs.append(Pair(size, least, other))
        shown.append(Pair(size, other, least, label))
    reason = f"G = {best} is the run's best size by the law; this one must not beat it."
    return BEST.about(run).not_larger(pairs, shown, reason)


def _explain(run: MeasuredRun, untested: str, inside: bool) -> str:
    if not np.isfinite(run.best_group_size.high):
        unbounded = "c1 is not significantly positive, so G* has no upper bound here."
        return f"{unbounded} {untested}".rstrip()
    if untested:
        return untested
    constants = run.population.constants
    paper = np.sqrt(constants.c3.item() / constants.c1.item())
    edge = (
        "The run has no group sizes on both sides of the law's best size, so no minimum "
        "was seen. "
    )
    by_law, measured = _best_by_law(run), _best_measured(run, run.sizes)
    return (
        f"{'' if inside else edge}Of G = {', '.join(map(str, run.sizes))} the best "
        f"is {by_law} by the law and {measured} as measured; the "
        f"paper's sqrt(c3/c1) is {paper:.2f}."
    )


def _judge_independence(run: MeasuredRun) -> Claim:
    """Report the best measured size at each N, and that it could not have differed."""
    dividing = {n: [size for size in run.sizes if n % size == 0] for n in BUDGETS}
    listed = ", ".join(
        f"{_best_measured(run, sizes)} at N = {total}"
        for total, sizes in dividing.items()
        if sizes
    )
    case, bounded = FREE.about(run), np.isfinite(run.best_group_size.high)
    name = "best G by the law" if case.untested else "best measured G"
    return case.claim(
        f"{name} {listed}" if listed else "no group size divides these budgets",
        "holds" if bounded else "undecided",
        "An identity, not evidence: N x MSE = c1 G + c2 + c3/(G-1) holds no N. In epochs "
        "the noise of prompts cancels in part, and the best G of training rises with N."
        if bounded
        else "c1 is not significantly positive, so there may be no G* to depend on N.",
        run.best_group_size,
    )
