"""Assumption 2 and Corollary 5: is the value the best baseline?

Assumption 2 says that ||W||^2 and Z are uncorrelated given the prompt. Then b* = V, and
asymptotically no prompt-only baseline does better than GRPO-type, and vanilla does worse
(Corollary 5). What GRPO-type tends to is the oracle, so the limit is tested by the oracle's
MSE over that of the best constant, whose b* comes from other completions at a cost that is
taken off. Where the assumption fails, a corollary that is not true has had no chance: its
verdict is that the premise fails.

The assumption is about every prompt, so it is tested twice. With r_h the covariance in one
half of a prompt's completions over the scale sd(||W||^2) sd(Z) in the other half,

    (r_0 + r_1)/2   has mean zero where the correlation is zero, however unlike the spread
                    of ||W||^2 among right and wrong completions is: the mean over prompts,
    r_0 r_1         has mean zero there, and is positive on average wherever it is not zero,
                    also where prompts of opposite sign cancel in the mean.

For rewards 0 and 1 one number a prompt says on which side of vanilla the oracle is: with
rho = E[||W||^2 | Z=1] / E[||W||^2 | Z=0] its MSE is the smaller one where
rho > (1-V)/(2-V), for G (MSE_vanilla - MSE_oracle) = V^2 [(2-V) S_1 - (1-V) S_0].
"""

from dataclasses import replace

import numpy as np

from mse_lab.answers.claim import Claim, Verdict, describe
from mse_lab.answers.evidence import Evidence
from mse_lab.answers.judgement import Judgement, holm, judge_not_larger, judge_sign
from mse_lab.arrays import Floats
from mse_lab.estimators.binary import is_binary
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.moments import Moments
from mse_lab.mse.pools import Pools

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


def _halves(pools: Pools) -> tuple[Floats, Floats]:
    """Covariance and scale of ||W||^2 and Z in both halves of each prompt, (P, 2)."""
    half = pools.rewards_PN.shape[1] // 2
    shape = (pools.prompts, 2, half)
    norms2, rewards = (
        values_PN[:, : 2 * half].reshape(shape)
        for values_PN in (pools.norms2_PN, pools.rewards_PN)
    )
    apart = [values - values.mean(-1, keepdims=True) for values in (norms2, rewards)]
    # Norms that differ by the rounding of float32 alone, in which scores are, do not vary.
    varies = np.ptp(norms2, axis=-1) > 1e-6 * np.abs(norms2).max(-1)
    scale = np.sqrt((apart[0] ** 2).sum(-1) * (apart[1] ** 2).sum(-1)) * varies
    return (apart[0] * apart[1]).sum(-1), scale


def correlations(pools: Pools) -> Floats:
    """Correlate ||W||^2 with Z in each prompt by halves, (P', 2) where both vary in both.

    The covariance of one half over the scale of the other, which is independent of it.
    """
    covariance, scale = _halves(pools)
    varied = (scale > 0).all(-1)
    return np.asarray(covariance[varied] / scale[varied][:, ::-1])


def _over_prompts(values_P: Floats) -> Statistic:
    return Statistic(float(values_P.mean()), {"prompts": values_P[None]}, {})


def _norms_when_right(pools: Pools) -> str:
    """Compare the scores of right and wrong completions, where rewards are 0 or 1."""
    rewards, norms2 = pools.rewards_PN, pools.norms2_PN
    varied = rewards.max(-1) > rewards.min(-1)
    if not is_binary(rewards) or not varied.any():
        return ""
    right, wrong = (_mean_norms2(norms2[varied], rewards[varied] == z) for z in (1, 0))
    return f"E[||W||^2 | Z=1] / E[||W||^2 | Z=0] = {right / wrong:.2f}; " if wrong else ""


def _mean_norms2(norms2_PN: Floats, chosen_PN: Floats) -> float:
    return float(((norms2_PN * chosen_PN).sum(-1) / chosen_PN.sum(-1)).mean())


def _judge_assumption(evidence: Evidence) -> Claim:
    found = correlations(evidence.pools)
    says, runs = SAYS[ASSUMPTION], (evidence.name,)
    if len(found) < 2:
        why = "Fewer than two prompts have rewards and score norms that vary."
        return Claim(ASSUMPTION, runs, says, "no correlation", "undecided", why)
    mean, square = _over_prompts(found.mean(-1)), _over_prompts(found.prod(-1))
    p_mean, p_square = holm([mean.p_not_zero(), square.p_above_zero()])
    estimate = mean.interval(evidence.level)
    largest = float(np.sqrt(max(square.interval(evidence.level).high, 0.0)))
    return Claim(
        ASSUMPTION,
        runs,
        says,
        f"mean correlation within prompts {describe(estimate)}, root mean square "
        f"{np.sqrt(max(square.value, 0.0)):.3g}, at most {largest:.3g}; "
        f"{len(found)} prompts",
        _judge_correlation(min(p_mean, p_square), largest, evidence.alpha),
        f"{_norms_when_right(evidence.pools)}{evidence.describe_baselines()}.",
        estimate=estimate,
        p_value=min(p_mean, p_square),
    )


def _judge_correlation(p_value: float, largest: float, alpha: float) -> Verdict:
    """Judge by the test, and by the largest root mean square that is not ruled out."""
    if p_value < alpha:
        return "fails"
    return "holds" if largest < SMALL_CORRELATION else "undecided"


def count_beyond(moments: Moments) -> tuple[int, int]:
    """Count the prompts on which vanilla is worse than the oracle, and all that learn.

    By E[(Z^2 - (Z-V)^2) ||W||^2] > 0, for rewards 0 and 1 the same as rho > (1-V)/(2-V);
    prompts on which both are zero count as neither.
    """
    gain_P = moments.constant_baseline(0.0) - moments.trace_oracle
    return int((gain_P > 0).sum()), int((gain_P != 0).sum())


def _best_constant_at(evidence: Evidence, size: int) -> tuple[Statistic, Statistic]:
    """Set GRPO-type less its term zeta/(G(G-1)), which vanishes, against the best."""
    vanishing = evidence.zeta * (1 / (size * (size - 1)))
    return evidence.mse("grpo", size) - vanishing, evidence.mse("best-constant", size)


def _judge_prompt_only(evidence: Evidence) -> list[Claim]:
    """Judge the limit by the oracle at the smallest G, which has the most replicates."""
    size = evidence.group_sizes[0]
    oracle, best = evidence.mse("oracle", size), evidence.mse("best-constant", size)
    [judgement] = judge_not_larger([(oracle, best)], evidence.alpha)
    ratio = (oracle / best).interval(evidence.level, positive=True)
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
    ratio = (grpo / best).interval(evidence.level, positive=True)
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
    gains = [
        evidence.mse("vanilla", size).exceeding(evidence.mse("grpo", size))
        for size in sizes
    ]
    p_values = holm([gain.p_not_zero() for gain in gains])
    rows = [
        _vanilla_row(evidence, size, gain, p_value)
        for size, gain, p_value in zip(sizes, gains, p_values, strict=True)
    ]
    return [_judge_vanilla_limit(evidence, rows[-1]), *rows]


def _vanilla_row(evidence: Evidence, size: int, gain: Statistic, p_value: float) -> Claim:
    grpo, vanilla = evidence.mse("grpo", size), evidence.mse("vanilla", size)
    ratio = (grpo / vanilla).interval(evidence.level, positive=True)
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
    limit = (trace / vanilla).interval(evidence.level, positive=True)
    gain = vanilla.exceeding(trace)
    p_value = gain.p_not_zero()
    return replace(
        last,
        measured=f"limit by the law {describe(limit)}; "
        f"{evidence.source} at G = {last.group_size}: {last.measured}",
        verdict=judge_sign(gain, p_value, evidence.alpha),
        group_size=None,
        estimate=limit,
        p_value=p_value,
    )


def explain_vanilla(evidence: Evidence) -> str:
    """Say from the moments from which G on GRPO-type beats vanilla.

    (A - ||g||^2) - T = S (b*^2 - (V - b*)^2): what counts is which of 0 and V is nearer b*.
    """
    gain = evidence.vanilla_trace.value - evidence.oracle_trace.value
    where = f"Root mean square, {evidence.describe_distances()}; {_beyond(evidence)}"
    if gain <= 0:
        return f"{where}; so vanilla has the smaller MSE at every G."
    start = 1 + evidence.zeta.value / gain
    return f"{where}; so by the moments GRPO-type beats vanilla from G = {start:.1f} on."


def _beyond(evidence: Evidence) -> str:
    """Say on how many prompts the value is the better baseline."""
    beyond, all_prompts = count_beyond(evidence.moments)
    pools = evidence.pools
    line = "rho > (1-V)/(2-V), " if is_binary(pools.rewards_PN) else ""
    return (
        f"vanilla is worse than the oracle ({line}by the moments) on {beyond} of "
        f"{all_prompts} prompts"
    )


def judge_baselines(evidence: Evidence) -> list[Claim]:
    """Judge Assumption 2 and both halves of Corollary 5."""
    assumption = _judge_assumption(evidence)
    corollaries = [*_judge_prompt_only(evidence), *_judge_vanilla(evidence)]
    if assumption.verdict == "fails":
        corollaries = [_on_a_false_premise(claim) for claim in corollaries]
    return [assumption, *corollaries]


def _on_a_false_premise(claim: Claim) -> Claim:
    """Turn a failure into that of its premise."""
    if claim.verdict != "fails":
        return claim
    reason = f"Not so here, where Assumption 2, on which it rests, fails. {claim.reason}"
    return replace(claim, verdict="premise fails", reason=reason)
