"""Assumption 2 and Corollary 5: is the value the best baseline?

Assumption 2 says that ||W||^2 and Z are uncorrelated given the prompt. Then b* = V, and
asymptotically no prompt-only baseline does better than GRPO-type, and vanilla does worse
(Corollary 5). What GRPO-type tends to is the oracle, so the limit is tested by the oracle's
MSE over that of the best constant, whose b* comes from other completions. That b* has an
error of its own, which favours GRPO-type by a share of about 1/N; a verdict against the
paper is not owed to it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mse_lab.claims.claim import Claim, Verdict, describe
from mse_lab.claims.drawn import Drawn, Judgement, holm, judge_not_larger, judge_sign
from mse_lab.claims.evidence import Evidence
from mse_lab.intervals import Estimate
from mse_lab.pools import Floats, Pools

ASSUMPTION = "Assumption 2"
PROMPT_ONLY = "Corollary 5 (prompt-only baselines)"
VANILLA = "Corollary 5 (vanilla)"
SAYS = {
    ASSUMPTION: "Given the prompt, ||W||^2 and the reward are uncorrelated.",
    PROMPT_ONLY: "Asymptotically no prompt-only baseline does better than GRPO-type.",
    VANILLA: "Asymptotically GRPO-type is strictly better than vanilla.",
}

# A correlation that explains one hundredth of the variance.
SMALL_CORRELATION = 0.1


def _varies(values_PN: Floats) -> NDArray[np.bool_]:
    """See where values differ by more than the rounding of float32, in which scores are."""
    return np.ptp(values_PN, axis=-1) > 1e-6 * np.abs(values_PN).max(-1)


def correlations(pools: Pools) -> Floats:
    """Correlate ||W||^2 with Z inside each prompt where both vary, (P',)."""
    varied = _varies(pools.norms2_PN) & _varies(pools.rewards_PN)
    norms2, rewards = (
        values[varied] - values[varied].mean(-1, keepdims=True)
        for values in (pools.norms2_PN, pools.rewards_PN)
    )
    scale = np.sqrt((norms2**2).sum(-1) * (rewards**2).sum(-1))
    return np.asarray((norms2 * rewards).sum(-1) / scale)


def _mean_correlation(evidence: Evidence) -> Drawn | None:
    """Average over prompts; draws resample prompts, whose spread holds all noise."""
    found = correlations(evidence.pools)
    count = len(found)
    if count < 2:
        return None
    rng = evidence.stream("correlations")
    counts_BP = rng.multinomial(count, np.full(count, 1 / count), size=evidence.draws)
    return Drawn(float(found.mean()), counts_BP @ found / count, count - 1)


def _judge_correlation(estimate: Estimate, p_value: float, alpha: float) -> Verdict:
    if p_value < alpha:
        return "fails"
    small = max(abs(estimate.low), abs(estimate.high)) < SMALL_CORRELATION
    return "holds" if small else "undecided"


def _norms_when_right(pools: Pools) -> str:
    """Compare the scores of right and wrong completions, where rewards are 0 or 1."""
    rewards, norms2 = pools.rewards_PN, pools.norms2_PN
    varied = (rewards.max(-1) > rewards.min(-1))[:, None]
    right, wrong = varied & (rewards == 1), varied & (rewards == 0)
    if (right.sum() + wrong.sum() < varied.sum() * rewards.shape[1]) or not varied.any():
        return ""
    means_P = [
        (norms2 * kind).sum(-1)[varied[:, 0]] / kind.sum(-1)[varied[:, 0]]
        for kind in (right, wrong)
    ]
    if means_P[1].mean() <= 0:
        return ""
    ratio = means_P[0].mean() / means_P[1].mean()
    return f"E[||W||^2 | Z=1] / E[||W||^2 | Z=0] = {ratio:.2f}; "


def _judge_assumption(evidence: Evidence) -> Claim:
    mean = _mean_correlation(evidence)
    says, runs = SAYS[ASSUMPTION], (evidence.name,)
    if mean is None:
        why = "Fewer than two prompts have rewards and score norms that vary."
        return Claim(ASSUMPTION, runs, says, "no correlation", "undecided", why)
    estimate, p_value = mean.interval(evidence.level), mean.p_not_zero()
    return Claim(
        ASSUMPTION,
        runs,
        says,
        f"mean correlation within prompts {describe(estimate)}, "
        f"{int(mean.degrees) + 1} prompts",
        _judge_correlation(estimate, p_value, evidence.alpha),
        f"{_norms_when_right(evidence.pools)}{evidence.describe_baselines()}.",
        estimate=estimate,
        p_value=p_value,
    )


def _best_constant_at(evidence: Evidence, size: int) -> tuple[Drawn, Drawn]:
    """Set GRPO-type less its term zeta/(G(G-1)), which vanishes, against the best."""
    vanishing = evidence.zeta * (1 / (size * (size - 1)))
    return evidence.mse("grpo", size) - vanishing, evidence.mse("best-constant", size)


def _judge_prompt_only(evidence: Evidence) -> list[Claim]:
    """Judge the limit by the oracle at the smallest G, which has the most replicates."""
    size = evidence.group_sizes[0]
    oracle, best = evidence.mse("oracle", size), evidence.mse("best-constant", size)
    [judgement] = judge_not_larger([(oracle, best)], evidence.alpha)
    ratio = (oracle / best).interval(evidence.level)
    whole = Claim(
        PROMPT_ONLY,
        (evidence.name,),
        SAYS[PROMPT_ONLY],
        f"limit of GRPO-type (oracle) / best constant {describe(ratio)}",
        judgement.verdict,
        evidence.explain(_explain_limit(evidence)),
        estimate=ratio,
        p_value=judgement.p_value,
    )
    return [whole, *_prompt_only_rows(evidence)]


def _explain_limit(evidence: Evidence) -> str:
    trace, best = evidence.oracle_trace.value, evidence.law("best-constant", 1).value
    if best <= 0:
        return "The best constant's MSE is not measurably positive."
    return (
        f"By the moments {evidence.describe_baselines()}; the best constant's limit is "
        f"{trace / best:.2f} times smaller than GRPO-type's."
    )


def _prompt_only_rows(evidence: Evidence) -> list[Claim]:
    sizes = evidence.group_sizes
    pairs = [_best_constant_at(evidence, size) for size in sizes]
    judgements = judge_not_larger(pairs, evidence.alpha)
    return [
        _prompt_only_row(evidence, size, judgement)
        for size, judgement in zip(sizes, judgements, strict=True)
    ]


def _prompt_only_row(evidence: Evidence, size: int, judgement: Judgement) -> Claim:
    grpo, best = evidence.mse("grpo", size), evidence.mse("best-constant", size)
    ratio = (grpo / best).interval(evidence.level)
    return Claim(
        PROMPT_ONLY,
        (evidence.name,),
        SAYS[PROMPT_ONLY],
        f"GRPO-type / best constant {describe(ratio)}",
        judgement.verdict,
        evidence.explain(
            "Judged after zeta/(G(G-1)), which vanishes, is taken off GRPO-type's MSE."
        ),
        group_size=size,
        estimate=ratio,
        p_value=judgement.p_value,
    )


def _judge_vanilla(evidence: Evidence) -> list[Claim]:
    """Judge at each G by the replicates, if any; as a whole by T / (A - ||g||^2)."""
    sizes = evidence.group_sizes
    gains = [evidence.mse("vanilla", size) - evidence.mse("grpo", size) for size in sizes]
    p_values = holm([gain.p_not_zero() for gain in gains])
    rows = [
        _vanilla_row(evidence, size, gain, p_value)
        for size, gain, p_value in zip(sizes, gains, p_values, strict=True)
    ]
    return [_judge_vanilla_limit(evidence, rows[-1]), *rows]


def _vanilla_row(evidence: Evidence, size: int, gain: Drawn, p_value: float) -> Claim:
    grpo, vanilla = evidence.mse("grpo", size), evidence.mse("vanilla", size)
    ratio = (grpo / vanilla).interval(evidence.level)
    return Claim(
        VANILLA,
        (evidence.name,),
        SAYS[VANILLA],
        f"GRPO-type / vanilla {describe(ratio)}",
        judge_sign(gain, p_value, evidence.alpha),
        evidence.explain(explain_vanilla(evidence)),
        group_size=size,
        estimate=ratio,
        p_value=p_value,
    )


def _judge_vanilla_limit(evidence: Evidence, last: Claim) -> Claim:
    trace, vanilla = evidence.oracle_trace, evidence.vanilla_trace
    limit = (trace / vanilla).interval(evidence.level)
    p_value = (vanilla - trace).p_not_zero()
    return replace(
        last,
        measured=f"limit by the law {describe(limit)}; "
        f"{evidence.source} at G = {last.group_size}: {last.measured}",
        verdict=judge_sign(vanilla - trace, p_value, evidence.alpha),
        group_size=None,
        estimate=limit,
        p_value=p_value,
    )


def explain_vanilla(evidence: Evidence) -> str:
    """Say from the moments from which G on GRPO-type beats vanilla.

    (A - ||g||^2) - T = S (b*^2 - (V - b*)^2): what counts is which of 0 and V is nearer b*.
    """
    gain = evidence.vanilla_trace.value - evidence.oracle_trace.value
    where = f"Root mean square, {evidence.describe_distances()}"
    if gain <= 0:
        return f"{where}, so vanilla has the smaller MSE at every G."
    start = 1 + evidence.zeta.value / gain
    return f"{where}, so by the moments GRPO-type beats vanilla from G = {start:.1f} on."


def judge_baselines(evidence: Evidence) -> list[Claim]:
    """Judge Assumption 2 and both halves of Corollary 5."""
    return [
        _judge_assumption(evidence),
        *_judge_prompt_only(evidence),
        *_judge_vanilla(evidence),
    ]
