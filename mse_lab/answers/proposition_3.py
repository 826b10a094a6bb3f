"""Proposition 3: B random prompts add c1/B to the MSE.

    B x MSE = c1 + c2/G + c3/(G(G-1)),  c1 = E||g(X) - g||^2, c2 = E[T], c3 = E[zeta]

Measured on sets of B prompts drawn with replacement from the run's P, each with a group of
its own picked at random: the error of a set's mean against the mean of all P gradients is

    (1/B^2) sum_b error_b + ||(1/B) sum_b g(x_b) - gbar||^2,

the groups' measured errors and the spread of the gradients, from <rbar(x), rbar(x')> for
different prompts and <r_A, r_B> for one. Prompts drawn from a finite P have the constant
c1 (P-1)/P in the place of c1.

What this cannot see: the cross terms, between the noise of two prompts and between noise
and spread. They have mean zero because prompts are sampled independently; they are left
out, not measured. Given the gradients' products, the spread's mean over sets is c1/B by
algebra, so that part checks the bookkeeping, not the model. What can fail is the rest:
errors of groups that do not follow c2/G + c3/(G(G-1)).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.answers.agreement import explain, judge_agreement, p_unequal, ratio_to_law
from mse_lab.answers.claim import Claim, describe, for_all
from mse_lab.answers.evidence import NOTHING, UNTESTED, Evidence
from mse_lab.answers.judgement import holm
from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.pools import Pools
from mse_lab.mse.replicates import Key

BATCHES = (4, 16, 64)
SETS = 4000

STATEMENT = "Proposition 3"
SAYS = "With B random prompts the MSE is c1/B + c2/(BG) + c3/(BG(G-1))."


class _Set(NamedTuple):
    """Prompts of SETS aggregates, and what their gradients' spread adds to B x MSE."""

    prompts_SB: NDArray[np.int64]
    spread_S: Floats


def gradient_products(pools: Pools) -> Floats:
    """<g(x), g(x')>, unbiased everywhere: independent halves on the diagonal, (P, P)."""
    products_PP = pools.between_PP.copy()
    np.fill_diagonal(products_PP, pools.reference_product_P)
    return products_PP


def _draw_sets(evidence: Evidence, batch: int) -> _Set:
    pools = evidence.pools
    rng = evidence.stream("prompts", str(batch))
    picks_SB = rng.integers(pools.prompts, size=(SETS, batch))
    shares_SP = np.full((SETS, pools.prompts), -1 / pools.prompts)
    np.add.at(shares_SP, (np.arange(SETS)[:, None], picks_SB), 1 / batch)
    spread_S = ((shares_SP @ gradient_products(pools)) * shares_SP).sum(-1)
    return _Set(picks_SB, batch * spread_S)


def _measure(evidence: Evidence, drawn: _Set, size: int) -> Statistic:
    """B x MSE over the sets, which varies by the replicates and by the sets drawn."""
    errors_PR = evidence.result.errors[Key("grpo", size)]
    batch = drawn.prompts_SB.shape[1]
    rng = evidence.stream("groups", str(size), str(batch))
    picks_SB = rng.integers(errors_PR.shape[1], size=drawn.prompts_SB.shape)
    total_S = errors_PR[drawn.prompts_SB, picks_SB].mean(-1) + drawn.spread_S
    sets = Statistic(float(total_S.mean()), {f"sets of {batch}": total_S[None]}, {})
    replicates = evidence.mse("grpo", size) * evidence.pools.prompts
    return sets + replicates - Statistic(replicates.value, {}, {})


def _law(evidence: Evidence, between: float, size: int) -> Statistic:
    """B x MSE by the law; the spread is common to both sides and stays as it is."""
    return evidence.law("grpo", size) * evidence.pools.prompts + Statistic(between, {}, {})


def _between_of_all(evidence: Evidence) -> float:
    """c1 (P-1)/P."""
    prompts = evidence.pools.prompts
    return float(evidence.population.constants.between.item()) * (prompts - 1) / prompts


def judge_random_prompts(evidence: Evidence) -> list[Claim]:
    """Judge Proposition 3 at each group size by the batch that is furthest off."""
    pools = evidence.pools
    if pools.prompts < 3:
        why = "The spread between prompts needs three prompts or more."
        return [_undecided(evidence, "too few prompts", why)]
    if not evidence.has_replicates:
        known = f"c1 = {_describe_between(evidence)}; {NOTHING}"
        return [_undecided(evidence, known, UNTESTED)]
    batches = [batch for batch in BATCHES if batch <= pools.prompts] or [pools.prompts]
    sets = [_draw_sets(evidence, batch) for batch in batches]
    between = _between_of_all(evidence)
    laws = [_law(evidence, between, size) for size in evidence.group_sizes]
    measured = [
        [_measure(evidence, one, size) for one in sets] for size in evidence.group_sizes
    ]
    p_values = holm(
        [
            p_unequal(one, law)
            for row, law in zip(measured, laws, strict=True)
            for one in row
        ]
    )
    grid = np.array(p_values).reshape(len(laws), len(batches))
    rows = [
        _judge_size(evidence, size, batches, found, law, corrected)
        for size, found, law, corrected in zip(
            evidence.group_sizes, measured, laws, grid, strict=True
        )
    ]
    return [_judge_whole(evidence, batches, rows), *rows]


def _undecided(evidence: Evidence, measured: str, why: str) -> Claim:
    return Claim(STATEMENT, (evidence.name,), SAYS, measured, "undecided", why)


def _judge_size(
    evidence: Evidence,
    size: int,
    batches: list[int],
    measured: list[Statistic],
    law: Statistic,
    p_values: Floats,
) -> Claim:
    ratios = [ratio_to_law(evidence, one, law) for one in measured]
    worst = int(np.argmin(p_values))
    verdict = for_all(
        judge_agreement(ratio, float(p_value), evidence.alpha)
        for ratio, p_value in zip(ratios, p_values, strict=True)
    )
    listed = ", ".join(
        f"{one.value:.3g} at B = {batch}"
        for batch, one in zip(batches, measured, strict=True)
    )
    return Claim(
        STATEMENT,
        (evidence.name,),
        SAYS,
        f"B x MSE {listed}; law {law.value:.3g}; "
        f"ratio at B = {batches[worst]} {describe(ratios[worst])}",
        verdict,
        explain(verdict),
        group_size=size,
        estimate=ratios[worst],
        p_value=float(p_values[worst]),
    )


def _describe_between(evidence: Evidence) -> str:
    """Write c1 with its interval over prompts."""
    return describe(evidence.population.estimate(lambda one: one.between, evidence.level))


def _judge_whole(evidence: Evidence, batches: list[int], rows: list[Claim]) -> Claim:
    worst = min(rows, key=lambda row: row.p_value or 0.0)
    return Claim(
        STATEMENT,
        (evidence.name,),
        SAYS,
        f"c1 = {_describe_between(evidence)}; B = {', '.join(map(str, batches))}; "
        f"measured / law furthest off at G = {worst.group_size}: "
        f"{describe(worst.estimate)}",
        for_all(row.verdict for row in rows),
        "The groups' errors are tested against c2/G + c3/(G(G-1)); that the spread "
        "adds c1/B is algebra for independent prompts, not evidence.",
        estimate=worst.estimate,
        p_value=worst.p_value,
    )
