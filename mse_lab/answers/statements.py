"""The statements of arXiv 2603.01162 (v1) about gradients, as data.

With T = tr Sigma_oracle and zeta = Var(Z) E||W||^2 + ||g||^2 of the aggregate, for
independent completions and scores of mean zero,

    MSE of GRPO-type = T/G + zeta/(G(G-1))   exactly; the paper has T/G + O(1/G^2),
    MSE of the oracle = T/G,
    N x MSE = c1 G + c2 + c3/(G-1)           with B = N/G prompts drawn at random:

the zeta term is ours, and so is the best group size 1 + sqrt(c3/c1); the paper's is
sqrt(c3/c1), the form for large G.
"""

import numpy as np

from mse_lab.answers.claims import (
    EQUAL_TEST,
    NOT_LARGER,
    NOT_SMALLER,
    SMALL,
    SMALLER,
    Statement,
    Test,
    equal,
)

# A correlation that explains one hundredth of the variance does not count.
UNCORRELATED = Test((0.0, 0.0), (-0.1, 0.1), (-0.1, 0.1))
UNEXPLAINED = Test((-np.inf, 0.0), (-np.inf, 0.01), (-np.inf, 0.01))

LEMMA = Statement(
    "Lemma 1",
    "The GRPO-type estimator equals the U-statistic with kernel (W_i - W_j)(Z_i - Z_j)/2.",
    "GRPO-type is a U-statistic",
    kind="identity",
)
LAW = Statement(
    "Theorem 2 (exact law)",
    "The GRPO-type MSE is T/G + zeta/(G(G-1)): the paper's O(1/G^2), made exact by us.",
    "MSE = T/G + zeta/(G(G-1))",
    equal(factor=1.5),
    "identity",
)
INTERCEPT = Statement(
    "Theorem 2 (intercept)",
    "G x MSE against 1/(G-1) has the intercept T = tr Sigma_oracle.",
    "G x MSE has intercept T",
    equal(factor=1.3),
    "identity",
)
SLOPE = Statement(
    "Theorem 2 (slope)",
    "G x MSE against 1/(G-1) has the slope zeta, a term of ours.",
    "G x MSE has slope zeta",
    equal(factor=1.5),
    "identity",
)
RANDOM_PROMPTS = Statement(
    "Proposition 3",
    "With B random prompts the MSE is c1/B + c2/(BG) + c3/(BG(G-1)).",
    "random prompts add c1/B",
    equal(factor=1.5),
    "identity",
)
LIMIT = Statement(
    "Corollary 4",
    f"As G grows, the GRPO-type MSE comes within {SMALL:.0%} of the oracle's.",
    "the oracle's for large G",
    EQUAL_TEST,
    "identity",
)
ON_AVERAGE = Statement(
    "Assumption 2 (on average)",
    "Given the prompt, ||W||^2 and the reward are uncorrelated, on average over prompts.",
    "score norm, reward uncorrelated",
    UNCORRELATED,
)
ON_EACH = Statement(
    "Assumption 2 (on each prompt)",
    "On each prompt the reward explains nothing of the variance of ||W||^2.",
    "so on every single prompt",
    UNEXPLAINED,
)
PROMPT_ONLY = Statement(
    "Corollary 5 (prompt-only baselines)",
    "Asymptotically no prompt-only baseline does better than GRPO-type.",
    "no fixed baseline is better",
    NOT_LARGER,
    assumes="Assumption 2",
)
GROUP_MEANS = Statement(
    "Corollary 5 (what it leaves out)",
    "No baseline of the group's mean, alpha + lambda m, does better than the value V.",
    "no baseline of m is better than V",
    NOT_SMALLER,
    assumes="Assumption 2",
)
VANILLA = Statement(
    "Corollary 5 (vanilla)",
    "Asymptotically GRPO-type is strictly better than vanilla.",
    "no baseline is worse",
    SMALLER,
    assumes="Assumption 2",
)
LARGE_GROUPS = Statement(
    "Section 5.1 (vanilla largest)",
    "Vanilla has the largest MSE at every group size.",
    "no baseline is always worst",
    SMALLER,
)
NEAR_AT_8 = Statement(
    "Section 5.1 (near the oracle at G = 8)",
    f"At G = 8 GRPO-type is within {SMALL:.0%} of the oracle.",
    "near the oracle at G = 8",
    EQUAL_TEST,
)
NEAR_FROM_32 = Statement(
    "Section 5.1 (the oracle's at G = 32 and 64)",
    f"At G = 32 and 64 GRPO-type is within {SMALL:.0%} of the oracle.",
    "near it at G = 32 and 64",
    EQUAL_TEST,
)
FALLS = Statement(
    "Section 5.1 (falls with G)",
    "Every MSE falls with the group size.",
    "every error falls with G",
    SMALLER,
    "identity",
)
BEST = Statement(
    "Theorem 7 (best group size)",
    "At a fixed budget N = BG the best group size is sqrt(c3/c1) for large G; exactly, and "
    "this is ours, 1 + sqrt(c3/c1).",
    "best G is 1 + sqrt(c3/c1)",
    NOT_LARGER,
    "identity",
)
ORDER = Statement(
    "Section 5.1 (falls from run to run)",
    "Every MSE falls from base to instruct to ICL, the runs in the order given.",
    "errors fall in this order",
    SMALLER,
)
