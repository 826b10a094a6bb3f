"""Claims: every statement of arXiv 2603.01162 about gradients, put to a finished run.

| file              | statement                                                         |
|-------------------|-------------------------------------------------------------------|
| u_statistic       | Lemma 1                                                           |
| expansion         | Theorem 2                                                         |
| random_prompts    | Proposition 3                                                     |
| oracle_property   | Corollary 4                                                       |
| baselines         | Assumption 2 and Corollary 5                                      |
| observations      | section 5.1: three observations, one of them over several runs    |
| best_group_size   | Theorem 7                                                         |

A verdict is `holds`, `fails`, `premise fails` or `undecided` at the level alpha = 1 -
`interval.level` of the run. P-values of one statement in one run are Holm-corrected over
group sizes (and over whatever else is compared there). Nothing is measured again: all
follows from `pools.npz`.
"""

from mse_lab.claims.claim import Claim
from mse_lab.claims.judge import judge_result, judge_runs, write_claims
from mse_lab.claims.report import claims_markdown, claims_table

__all__ = [
    "Claim",
    "claims_markdown",
    "claims_table",
    "judge_result",
    "judge_runs",
    "write_claims",
]
