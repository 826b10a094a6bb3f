"""Proposition 3: B random prompts add c1/B to the MSE.

    B x MSE = c1 + c2/G + c3/(G(G-1)),  c1 = E||g(X) - g||^2, c2 = E[T], c3 = E[zeta]

Measured on sets of B prompts drawn with replacement from the run's P, each with a group of
its own picked at random: the error of a set's mean against the mean of all P gradients is

    (1/B^2) sum_b error_b + ||(1/B) sum_b g(x_b) - gbar||^2,

the groups' measured errors and the spread of the gradients, from <rbar(x), rbar(x')> for
different prompts and <r_A, r_B> for one. Prompts drawn from a finite P have the constant
c1 (P-1)/P instead of c1.

What this cannot see: the cross terms, between the noise of two prompts and between noise
and spread. They have mean zero because prompts are sampled independently; they are left
out, not measured. Given the gradients' products, the spread's mean over sets is c1/B by
algebra, so that part checks the bookkeeping, not the model. What can fail is the rest:
errors of groups that do not follow c2/G + c3/(G(G-1)).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mse_lab.answers.judgement import JudgedPair, Pair
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import DRAWS, FEW_PROMPTS, Claim, Statement, judges
from mse_lab.arrays import Floats, Ints
from mse_lab.formatting import with_interval
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.replicates import Key
from mse_lab.probe.streams import stream

BATCHES = (4, 16, 64)
SETS = 4000

PROPOSITION = Statement(
    "Proposition 3",
    "With B random prompts the MSE is c1/B + c2/(BG) + c3/(BG(G-1)).",
    DRAWS,
    short="random prompts add c1/B",
    number="measured/law",
)

WHAT_IS_TESTED = (
    "The groups' errors are tested against c2/G + c3/(G(G-1)); that the spread "
    "adds c1/B is algebra for independent prompts, not evidence."
)


# Prompts of SETS aggregates (S, B), and what their gradients' spread adds to B x MSE (S,).
_Sets = tuple[Ints, Floats]


def _stream(run: MeasuredRun, *purpose: object) -> np.random.Generator:
    return stream(run.seed, "claims", run.name, *map(str, purpose))


def _draw_sets(run: MeasuredRun, batch: int) -> _Sets:
    prompts = run.pools.prompts
    picks_SB = _stream(run, "prompts", batch).integers(prompts, size=(SETS, batch))
    shares_SP = np.full((SETS, prompts), -1 / prompts)
    np.add.at(shares_SP, (np.arange(SETS)[:, None], picks_SB), 1 / batch)
    spread_S = ((shares_SP @ run.pools.gradient_products_PP) * shares_SP).sum(-1)
    return picks_SB, batch * spread_S


def _measure(run: MeasuredRun, drawn: _Sets, size: int) -> Statistic:
    """B x MSE over the sets, which varies by the replicates and by the sets drawn."""
    (prompts_SB, spread_S), errors_PR = drawn, run.compared_errors[Key("grpo", size)]
    batch = prompts_SB.shape[1]
    rng = _stream(run, "groups", size, batch)
    groups_SB = rng.integers(errors_PR.shape[1], size=prompts_SB.shape)
    total_S = errors_PR[prompts_SB, groups_SB].mean(-1) + spread_S
    sets = Statistic(float(total_S.mean()), {f"sets of {batch}": total_S[None]}, {})
    replicates = run.mse_of("grpo", size) * run.pools.prompts
    return sets + replicates - Statistic(replicates.value, {}, {})


def _law(run: MeasuredRun, size: int) -> Statistic:
    """B x MSE by the law; the spread is common to both sides and stays as it is."""
    prompts, between = run.pools.prompts, run.population.constants.c1.item()
    spread = Statistic(float(between) * (prompts - 1) / prompts, {}, {})
    return run.law_of("grpo", size) * prompts + spread


def _describe(judged: Sequence[JudgedPair]) -> str:
    measured = ", ".join(f"{pair.first.value:.3g} at {pair.label}" for pair, *_ in judged)
    law, worst = judged[0].pair.second.value, min(judged, key=lambda result: result.p_value)
    ratio = f"ratio at {worst.pair.label} {with_interval(worst.ratio)}"
    return f"B x MSE {measured}; law {law:.3g}; {ratio}"


@judges(order=30)
def judge_random_prompts(run: MeasuredRun) -> list[Claim]:
    """Judge Proposition 3 at each group size by the batch that is furthest off."""
    case, prompts = PROPOSITION.about(run), run.pools.prompts
    if prompts < 3:
        return case.undecided(*FEW_PROMPTS)
    between = f"c1 = {with_interval(run.constants['c1'])}; "
    return case.without_replicates(between) or _judge_sets(run, between)


def _judge_sets(run: MeasuredRun, between: str) -> list[Claim]:
    prompts = run.pools.prompts
    batches = [batch for batch in BATCHES if batch <= prompts] or [prompts]
    sets = {batch: _draw_sets(run, batch) for batch in batches}
    laws = {size: _law(run, size) for size in run.sizes}
    pairs = [
        Pair(size, _measure(run, sets[batch], size), laws[size], f"B = {batch}")
        for size in run.sizes
        for batch in batches
    ]
    listed = f"{between}B = {', '.join(map(str, batches))}; "
    whole, *rows = PROPOSITION.about(run).equal(pairs, _describe, listed)
    return [replace(whole, reason=WHAT_IS_TESTED), *rows]
