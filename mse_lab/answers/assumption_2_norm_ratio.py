"""Assumption 2 for rewards 0 and 1: rho = E[||W||^2 | Z=1] / E[||W||^2 | Z=0] is 1.

The assumption is about every prompt. On a prompt it says that ||W||^2 and Z are
uncorrelated, so it fails by the test of `assumption_2_uncorrelated`, over prompts. The
level of that test does not rest on intervals of single prompts, which cover less where
right completions are few and scores heavy-tailed: how many of them miss 1 is only reported.
The assumption holds where every interval lies within a factor of two of 1. The paper's
picture needs far less: rho above (1-V)/(2-V), which is at most 1/2 (`mse_lab.mse.regime`).
"""

import numpy as np

from mse_lab.answers.assumption_2_uncorrelated import measure_correlations
from mse_lab.answers.judgement import decide
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import FEW_PROMPTS, Claim, Statement, judges
from mse_lab.arrays import Floats
from mse_lab.formatting import with_interval
from mse_lab.mse.regime import equal_baseline, norm_ratio

RATIO = Statement(
    "Assumption 2 (rho = 1)",
    "For rewards 0 and 1, Assumption 2: on every prompt "
    "rho = E[||W||^2 | Z=1] / E[||W||^2 | Z=0] is 1.",
    short="rho = 1; needed: (1-V)/(2-V)",
    number="rho",
)

# The fewest right, and the fewest wrong, completions of a prompt whose interval counts.
FEWEST = 5


def _known_ratios(run: MeasuredRun) -> tuple[Floats, Floats]:
    """Intervals of rho that are known well enough, (2, n), and each prompt's line, (n,)."""
    right_P = run.pools.rewards_PN.sum(-1)
    wrong_P = run.pools.rewards_PN.shape[1] - right_P
    ends, value = run.norm_ratios[:, 1:], run.moments.value
    enough = (np.minimum(right_P, wrong_P) >= FEWEST) & np.isfinite(ends).all(-1)
    return ends[enough].T, norm_ratio(equal_baseline(value), value)[enough]


@judges(order=60)
def judge_norm_ratio(run: MeasuredRun) -> list[Claim]:
    """Judge rho = 1 by the correlations; count the prompts whose intervals miss it."""
    case = RATIO.about(run)
    if run.pools.prompts < 3:
        return case.undecided(*FEW_PROMPTS)
    if not run.binary:
        return case.undecided("no rho", "Rewards are not 0 and 1, for which rho is.")
    (low, high), line = _known_ratios(run)
    if not low.size:
        why = f"No prompt has {FEWEST} right and {FEWEST} wrong completions."
        return case.undecided("no rho", why)
    missed, regime = int(((low > 1) | (high < 1)).sum()), run.regime
    p_value = measure_correlations(run.pools).p_value
    near = bool(((low > 1 / 2) & (high < 2)).all())
    return [
        case.claim(
            f"rho {with_interval(regime.rho)} for the aggregate; a prompt's interval "
            f"misses 1 on {missed} of {low.size}",
            decide(p_value < 1 - run.level, near),
            "That vanilla is worse than the oracle needs only rho > (1-V)/(2-V), "
            f"{regime.line:.2g} for the aggregate: prompts' intervals are above their line "
            f"on {(low > line).sum()}, below it on {(high < line).sum()} of {low.size}.",
            regime.rho,
            p_value,
        )
    ]
