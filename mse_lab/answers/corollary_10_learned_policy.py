"""Corollary 10: the learned policy is no worse than with any other prompt-only baseline.

It takes Assumption 2 at the optimum, b* = V on every prompt. But for a log-linear softmax
policy, W = features less their mean, grad W is -Cov(W) whatever Y, so

    Hess J = E_X E[Z (W W' - Cov(W))],    tr Hess J = E_X[S (b* - V)].

At a maximum it is negative or zero, and zero only where the Hessian is: so the corollary
is empty there, its assumption ruling out a strict maximum. Any run can say on which side it
is; for other policies a term E[Z (tr Hess log pi + S)] comes in.
"""

from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import FEW_PROMPTS, Claim, Statement, judges
from mse_lab.formatting import with_interval
from mse_lab.mse.prompt_samples import mean_over_prompts

LEARNED = Statement(
    "Corollary 10",
    "No prompt-only baseline leads to a better policy than GRPO-type: by Assumption 2, "
    "that b* = V, at the optimum.",
    short="no baseline leads further",
    number="b* - V",
)
EMPTY = (
    "For a log-linear softmax policy E[S (b* - V)] is the trace of J's Hessian, negative "
    "at a strict maximum: there the assumption cannot hold, and the corollary is empty."
)


@judges(order=90)
def judge_learned_policy(run: MeasuredRun) -> list[Claim]:
    """Judge the premise at this checkpoint: the mean of b* - V, weighted by S, is zero."""
    case = LEARNED.about(run)
    if run.pools.prompts < 3:
        return case.undecided(*FEW_PROMPTS)
    moments = run.moments
    difference = mean_over_prompts(moments.reward_norm2 - moments.value * moments.norm2)
    mean = difference / mean_over_prompts(moments.norm2)
    estimate = mean.interval(run.level, most_degrees=run.population.effective_prompts)
    verdict: Verdict = "premise fails"
    if estimate.low > 0:
        side = "above zero: right completions have the larger scores"
    elif estimate.high < 0:
        side = "below zero: right completions have the smaller scores"
    else:
        verdict, side = "undecided", "not significantly different from zero"
    measured = f"E[S (b* - V)] / E[S] {with_interval(estimate)}"
    return [case.claim(measured, verdict, f"{EMPTY} Here it is {side}.", estimate)]
