"""The observations of section 5.1 on Figure 4.

Vanilla is largest everywhere; GRPO-type is close to the oracle at G = 8 and
indistinguishable from it at 32 and 64; every MSE falls with G; and every MSE falls from
base to instruct to ICL, the runs in the order given.

Runs count as independent. Runs of one seed and the same prompts share the uniforms that
draw their completions; what they have in common makes the intervals between runs wider
than they need be, not narrower, where it moves both the same way.
"""

from collections.abc import Sequence
from itertools import pairwise, product

from mse_lab.answers.corollary_4_oracle import MARGIN, explain_distance, near_oracle
from mse_lab.answers.corollary_5_baseline import explain_vanilla
from mse_lab.answers.judgement import Pair
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import (
    DRAWS,
    Case,
    Claim,
    Statement,
    compare,
    judges,
    judges_runs_together,
    largest_ratio,
    sum_up,
)
from mse_lab.formatting import with_interval

LARGEST = Statement(
    "Section 5.1 (vanilla largest)",
    "Vanilla has the largest MSE at every group size.",
    short="no baseline is always worst",
    number="group's/none",
)
NEAR = Statement(
    "Section 5.1 (near the oracle at G = 8)",
    f"At G = 8 GRPO-type is within {MARGIN:.0%} of the oracle.",
    short="near the oracle at G = 8",
    number="group's/oracle",
)
SAME = Statement(
    "Section 5.1 (the oracle's at G = 32 and 64)",
    f"At G = 32 and 64 GRPO-type is within {MARGIN:.0%} of the oracle.",
    short="near it at G = 32 and 64",
    number="group's/oracle",
)
FALLS = Statement(
    "Section 5.1 (falls with G)",
    "Every MSE falls with the group size.",
    DRAWS,
    short="every error falls with G",
    number="step",
)
ORDER = Statement(
    "Section 5.1 (falls from run to run)",
    "Every MSE falls from base to instruct to ICL, the runs in the order given.",
    short="errors fall in this order",
    number="ratio",
)

CURVES = ("vanilla", "grpo", "oracle")

_CANNOT = (
    " With rewards of 0 or 1 Assumption 2 makes zeta >= T, so that at G = 8 the ratio "
    "is 1 + 1/7 = 1.14 at least: where the assumption holds, this cannot."
)


def _judge_order(case: Case, pairs: Sequence[Pair], reason: str) -> list[Claim]:
    """Judge all pairs as one family, then each group size, then the whole."""
    rows = case.smaller(pairs, reason)
    verdicts = [row.verdict for row in rows]
    counts = ", ".join(
        f"{verdict} at {verdicts.count(verdict)}"
        for verdict in ("holds", "fails", "undecided")
        if verdict in verdicts
    )
    worst = largest_ratio(rows)
    measured = (
        f"{counts} of {len(rows)} group sizes; largest ratio, which should be below one, "
        f"{with_interval(worst.estimate)} at G = {worst.group_size}"
    )
    return sum_up(rows, worst, measured, reason)


def _judge_largest(run: MeasuredRun) -> list[Claim]:
    pairs = [
        compare(run, name, "vanilla", size, f"{name} / vanilla")
        for size in run.sizes
        for name in ("grpo", "oracle")
    ]
    return _judge_order(LARGEST.about(run), pairs, run.explain(explain_vanilla(run)))


def _judge_near(
    run: MeasuredRun, statement: Statement, wanted: Sequence[int], caveat: str = ""
) -> list[Claim]:
    case, sizes = statement.about(run), [size for size in run.sizes if size in wanted]
    if not sizes:
        why = f"The run has no group size {' or '.join(map(str, wanted))}."
        return case.undecided("nothing", why)
    rows = near_oracle(run, case, sizes)
    worst = largest_ratio(rows)
    measured = f"at G = {worst.group_size}: {worst.measured}"
    return sum_up(rows, worst, measured, f"{explain_distance(run)}{caveat}")


def _judge_falls(run: MeasuredRun) -> list[Claim]:
    case = FALLS.about(run)
    if len(run.sizes) < 2:
        return case.undecided("nothing", "The run has one group size.")
    pairs = []
    for (small, large), name in product(pairwise(run.sizes), CURVES):
        label = f"{name} G = {large} / {small}"
        pairs.append(Pair(large, run.mse_of(name, large), run.mse_of(name, small), label))
    reason = "By law G x MSE is constant for vanilla and oracle, and falls for GRPO-type."
    return _judge_order(case, pairs, run.explain(reason))


@judges(order=70)
def judge_observations(run: MeasuredRun) -> list[Claim]:
    """Judge the observations that concern one run."""
    return [
        *_judge_largest(run),
        *_judge_near(run, NEAR, (8,), _CANNOT),
        *_judge_near(run, SAME, (32, 64)),
        *_judge_falls(run),
    ]


def _obstacle(runs: Sequence[MeasuredRun], sizes: Sequence[int]) -> str:
    prompts = [str(run.pools.prompts) for run in runs]
    if len(set(prompts)) > 1:
        return f"The runs have {' and '.join(prompts)} prompts: their aggregates differ."
    return "" if sizes else "The runs have no group size in common."


def _describe_gradients(runs: Sequence[MeasuredRun]) -> str:
    """Compare the noise with the gradient, for a raw MSE says little across models."""
    traces = " -> ".join(f"{run.vanilla_trace.value:.3g}" for run in runs)
    gradients = " -> ".join(f"{run.pools.aggregate_norm2:.3g}" for run in runs)
    names = ", ".join(run.name for run in runs if run.source == "law")
    untested = f" By the law alone, for want of replicates: {names}." if names else ""
    return (
        f"G x MSE of vanilla by the moments goes {traces}; the aggregate's ||g||^2 goes "
        f"{gradients}, so raw and relative MSE need not move together.{untested}"
    )


@judges_runs_together
def judge_order_of_runs(runs: Sequence[MeasuredRun]) -> list[Claim]:
    """Judge whether every MSE falls from each run to the next; needs two runs."""
    if len(runs) < 2:
        return []
    case = ORDER.about(*runs)
    sizes = sorted(set.intersection(*(set(run.sizes) for run in runs)))
    if why := _obstacle(runs, sizes):
        return case.undecided("nothing", why)
    pairs = []
    for size, (old, new), name in product(sizes, pairwise(runs), CURVES):
        label = f"{name} {new.name} / {old.name}"
        pairs.append(Pair(size, new.mse_of(name, size), old.mse_of(name, size), label))
    return _judge_order(case, pairs, _describe_gradients(runs))
