"""Corollary 5, which rests on Assumption 2: is the value the best baseline?

Asymptotically no prompt-only baseline does better than GRPO-type, and vanilla does worse.
What GRPO-type tends to is the oracle, so the limit is tested by the oracle's MSE over that
of the best constant, whose b* comes from other completions at a cost that is taken off.
Where the assumption fails, a corollary that does not hold is not refuted: its verdict is
that the premise fails.

`mse_lab.mse.regime` says, prompt by prompt, on which side of vanilla the oracle is.
"""

from dataclasses import replace

import numpy as np

from mse_lab.answers.assumption_2 import (
    describe_baselines,
    judge_correlation,
    weighted_mean,
)
from mse_lab.answers.judgement import Pair, judge_not_larger, judge_smaller
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import Claim, Statement, compare, judges
from mse_lab.formatting import with_interval
from mse_lab.mse.regime import crossing_size, oracle_gain

PROMPT_ONLY = Statement(
    "Corollary 5 (prompt-only baselines)",
    "Asymptotically no prompt-only baseline does better than GRPO-type.",
    short="no fixed baseline is better",
    number="oracle/best",
)
VANILLA = Statement(
    "Corollary 5 (vanilla)",
    "Asymptotically GRPO-type is strictly better than vanilla.",
    short="no baseline is worse",
    number="oracle/none",
)


def _judge_prompt_only(run: MeasuredRun) -> list[Claim]:
    """Judge the limit by the oracle at the smallest G, which has the most replicates."""
    limit = compare(run, "oracle", "best-constant", run.sizes[0])
    [(_, verdict, p_value, ratio)] = judge_not_larger([limit], run.level)
    measured = f"limit of GRPO-type (oracle) / best constant {with_interval(ratio)}"
    reason, case = run.explain(_explain_limit(run)), PROMPT_ONLY.about(run)
    return [case.claim(measured, verdict, reason, ratio, p_value), *_prompt_only_rows(run)]


def _explain_limit(run: MeasuredRun) -> str:
    trace, best = run.oracle_trace.value, run.law_of("best-constant", 1).value
    if best <= 0:
        return "The best constant's MSE is not measurably positive."
    return (
        f"By the moments {describe_baselines(run)}; the best constant's limit is "
        f"{trace / best:.2f} times smaller than GRPO-type's."
    )


def _prompt_only_rows(run: MeasuredRun) -> list[Claim]:
    """Judge each size by the part of GRPO-type's MSE that does not vanish; show all."""
    reason = "Judged after zeta/(G(G-1)), which vanishes, is taken off GRPO-type's MSE."
    label = "GRPO-type / best constant"
    shown = [compare(run, "grpo", "best-constant", size, label) for size in run.sizes]
    pairs = []
    for pair in shown:
        vanishing = run.zeta * (1 / (pair.size * (pair.size - 1)))
        pairs.append(pair._replace(first=pair.first - vanishing))
    return PROMPT_ONLY.about(run).not_larger(pairs, shown, run.explain(reason))


def _judge_vanilla(run: MeasuredRun) -> list[Claim]:
    """Judge at each G by the replicates, if any; as a whole by T / (A - ||g||^2)."""
    label = "GRPO-type / vanilla"
    pairs = [compare(run, "grpo", "vanilla", size, label) for size in run.sizes]
    case, reason = VANILLA.about(run), run.explain(explain_vanilla(run))
    rows = case.smaller(pairs, reason)
    limit = Pair(0, run.oracle_trace, run.vanilla_trace)
    [(_, verdict, p_value, ratio)] = judge_smaller([limit], run.level)
    last = f"{run.source} at G = {rows[-1].group_size}: {rows[-1].measured}"
    measured = f"limit by the law {with_interval(ratio)}; {last}"
    return [case.claim(measured, verdict, reason, ratio, p_value), *rows]


def explain_vanilla(run: MeasuredRun) -> str:
    """Say from the moments from which G on GRPO-type beats vanilla.

    (A - ||g||^2) - T = S (b*^2 - (V - b*)^2): what counts is which of 0 and V is nearer b*.
    """
    best, value = run.moments.best_baseline, run.moments.value
    zero, oracle = (
        np.sqrt(weighted_mean(run, distance_P**2)) for distance_P in (best, value - best)
    )
    where = (
        f"Root mean square, b* is {zero:.2f} from vanilla's 0 and {oracle:.2f} from the "
        f"oracle's V; {_count_worse(run)}"
    )
    gain = run.vanilla_trace.value - run.oracle_trace.value
    if gain <= 0:
        return f"{where}; so vanilla has the smaller MSE at every G."
    start = crossing_size(gain, run.zeta.value)
    return f"{where}; so by the moments GRPO-type beats vanilla from G = {start:.1f} on."


def _count_worse(run: MeasuredRun) -> str:
    gain_P = oracle_gain(run.moments)
    line = "rho > (1-V)/(2-V), " if run.binary else ""
    return (
        f"vanilla is worse than the oracle ({line}by the moments) on {(gain_P > 0).sum()} "
        f"of {(gain_P != 0).sum()} prompts"
    )


@judges(order=50)
def judge_baselines(run: MeasuredRun) -> list[Claim]:
    """Judge Assumption 2 and both halves of Corollary 5."""
    assumption = judge_correlation(run)
    corollaries = [*_judge_prompt_only(run), *_judge_vanilla(run)]
    if assumption.verdict == "fails":
        why = "Not so here, where Assumption 2, on which it rests, fails."
        corollaries = [
            replace(claim, verdict="premise fails", reason=f"{why} {claim.reason}")
            if claim.verdict == "fails"
            else claim
            for claim in corollaries
        ]
    return [assumption, *corollaries]
