"""The statements of arXiv 2603.01162 (v1) about gradients, and a run's numbers for each.

With T = tr Sigma_oracle and zeta = Var(Z) E||W||^2 + ||g||^2 of the aggregate, for
independent completions and scores of mean zero,

    MSE of GRPO-type = T/G + zeta/(G(G-1))   exactly; the paper has T/G + O(1/G^2),
    MSE of the oracle = T/G,
    N x MSE = c1 G + c2 + c3/(G-1)           with B = N/G prompts drawn at random:

the zeta term is ours, and so is the best group size 1 + sqrt(c3/c1); the paper's is
sqrt(c3/c1), the form for large G.

Where the law is checked, prompts are the independent units: on each the errors deviate from
the law at its own moments by noise of mean zero, the reference's with it. So two blocks of
completions leave the degrees of freedom of the prompts, and not one.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from mse_lab.answers.claims import (
    NOT_LARGER,
    NOT_SMALLER,
    SMALL,
    SMALLER,
    Case,
    Claim,
    Number,
    Statement,
    Test,
    equal,
    judge,
    last_name,
    ratio,
    signed,
)
from mse_lab.arrays import Floats, divide
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.baselines import grpo
from mse_lab.estimators.groups import Groups
from mse_lab.formatting import number, with_interval
from mse_lab.mse.baseline import fit_at
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.loss import find_aims
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_table import mean_over_prompts
from mse_lab.mse.replicates import Key, form_groups
from mse_lab.results.analysis import Analysis

# By which factor replicates may deviate from the law that they check.
LAW_FACTOR = 1.5

# Far above the rounding of sums of at most some thousand float64, far below 1/G.
ROUNDING = 1e-10

# A correlation that explains one hundredth of the variance does not count.
UNCORRELATED = Test((0.0, 0.0), (-0.1, 0.1), (-0.1, 0.1))
UNEXPLAINED = Test((-np.inf, 0.0), (-np.inf, 0.01), (-np.inf, 0.01))

UNTESTED = "Without replicates nothing can tell the law from the truth."
FEW_PROMPTS = "Prompts are the independent units, and three are the fewest."

CURVES = {"vanilla": "vanilla", "grpo": "GRPO-type", "oracle": "oracle"}

LEMMA = Statement(
    "Lemma 1",
    "The GRPO-type estimator equals the U-statistic with kernel (W_i - W_j)(Z_i - Z_j)/2.",
    "GRPO-type is a U-statistic",
    Test(*[(-np.inf, ROUNDING)] * 3),
    identity=True,
)
LAW = Statement(
    "Theorem 2, Proposition 3, Corollary 4",
    "The GRPO-type MSE is T/G + zeta/(G(G-1)): the paper's O(1/G^2), made exact by us. "
    "Prompts drawn at random add c1/B, and as G grows the oracle's T/G is left.",
    "MSE = T/G + zeta/(G(G-1))",
    equal(LAW_FACTOR),
    identity=True,
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
    "no fixed baseline beats V",
    NOT_LARGER,
    assumes="Assumption 2",
)
GROUP_MEANS = Statement(
    "Corollary 5 (what it leaves out)",
    "No baseline of the group's mean, alpha + lambda m, does better than the value V.",
    "no baseline of m beats V",
    NOT_SMALLER,
    assumes="Assumption 2",
)
VANILLA = Statement(
    "Corollary 5 (vanilla)",
    "Asymptotically GRPO-type is strictly better than vanilla.",
    "vanilla is worse than V",
    SMALLER,
    assumes="Assumption 2",
)
LARGE_GROUPS = Statement(
    "Section 5.1 (vanilla largest)",
    "Vanilla has the largest MSE at every group size.",
    "vanilla is always worst",
    SMALLER,
    refuted="does not carry over",
)
NEAR_AT_8 = Statement(
    "Section 5.1 (near the oracle at G = 8)",
    f"At G = 8 GRPO-type is within {SMALL:.0%} of the oracle.",
    f"within our {SMALL:.0%} of the oracle, G = 8",
    refuted="does not carry over",
)
NEAR_FROM_32 = Statement(
    "Section 5.1 (the oracle's at G = 32 and 64)",
    f"At G = 32 and 64 GRPO-type is within {SMALL:.0%} of the oracle.",
    f"within our {SMALL:.0%} of it, G = 32 and 64",
    refuted="does not carry over",
)
FALLS = Statement(
    "Section 5.1 (falls with G)",
    "Every MSE falls with the group size.",
    "every error falls with G",
    SMALLER,
    refuted="does not carry over",
)
ORDER = Statement(
    "Section 5.1 (falls from run to run)",
    "Every MSE falls from base to instruct to ICL, the runs in the order given.",
    "errors fall in this order",
    SMALLER,
    refuted="does not carry over",
)
BEST = Statement(
    "Theorem 7 (best group size)",
    "At a fixed budget N = BG the best group size is sqrt(c3/c1) for large G; exactly, and "
    "this is ours, 1 + sqrt(c3/c1).",
    "best G is 1 + sqrt(c3/c1)",
    NOT_LARGER,
)
TRAININGS = Statement(
    "Figure 5, Table 2",
    "On GSM8K and MATH trainings at some group sizes end with the best accuracy.",
    "accuracy of trained models by G",
)


def _open(statement: Statement, why: str, shown: Number | None = None) -> Case:
    """Leave a statement that no number is put to, and say why."""
    return Case(statement, remark=why, verdict="not tested", shown=shown)


def _source(run: Analysis) -> str:
    return "By the law alone, for there are no replicates." if run.law_only else ""


def _compare(run: Analysis, first: str, second: str, size: int) -> Number:
    """Set an estimator's MSE in proportion to another's on the same groups."""
    label = f"{CURVES.get(first, first)}/{CURVES.get(second, second)}"
    sides = run.mse_of(first, size), run.mse_of(second, size)
    return ratio(label, *sides, run.level, size)


WeightRule = Callable[[Groups], Floats]


def largest_difference(pools: Pools, group_size: int, weights: WeightRule) -> float:
    """Find the largest distance of the weights from those of the pairwise form.

    2/(G(G-1)) sum_{i<j} (W_i - W_j)(Z_i - Z_j)/2 = (1/G) sum_i u_i W_i with the weights
    u_i = sum_{j != i} (Z_i - Z_j) / (G-1). The distance is over the largest weight of a
    group.
    """
    groups = form_groups(pools, group_size)
    weights_PRG, rewards_PRG = weights(groups), groups.rewards_PRG
    pairs_PRGG = rewards_PRG[..., :, None] - rewards_PRG[..., None, :]
    apart_PRG = weights_PRG - pairs_PRGG.sum(-1) / (group_size - 1)
    return float(divide(abs(apart_PRG).max(-1), abs(weights_PRG).max(-1)).max())


def lemma_1(run: Analysis, weights: WeightRule = grpo) -> list[Case]:
    """Compare the estimator with the pairwise form in every group of every size."""
    sizes = run.compared_sizes
    largest = max(largest_difference(run.pools, size, weights) for size in sizes)
    exact = Estimate(largest, largest, largest)
    apart = Number("weights apart by", exact, 0.0, 1.0, run.level, logarithmic=False)
    return [Case(LEMMA, (apart,))]


def theorem_2(run: Analysis) -> list[Case]:
    """Judge the law at each group size by each prompt's errors, prompts being the units."""
    if run.law_only or run.pools.prompts < 3:
        return [_open(LAW, UNTESTED if run.law_only else FEW_PROMPTS)]
    return [Case(LAW, tuple(_against_law(run, size) for size in run.compared_sizes))]


def _against_law(run: Analysis, size: int) -> Number:
    law_P = run.curves.prompts_by_law(find_estimator("grpo"), size)
    errors_P = run.compared_errors[Key("grpo", size)].mean(-1)
    law = Statistic(float(law_P.mean()), {}, {})
    measured = law + mean_over_prompts(errors_P - law_P)
    return ratio("measured/law", measured, law, run.level, size)


def _covariances(pools: Pools) -> tuple[Floats, Floats]:
    """Covary ||W||^2, over its mean, and Z in both halves of each prompt, (P', 2).

    Also the products of their standard deviations. Of prompts in which both vary; norms
    that differ by the rounding of float32 alone, in which scores are, do not.
    """
    half = pools.rewards_PN.shape[1] // 2
    norms2_PN, rewards_PN = pools.norms2_PN[:, : 2 * half], pools.rewards_PN[:, : 2 * half]
    ranges = [np.ptp(values_PN, axis=-1) for values_PN in (norms2_PN, rewards_PN)]
    varied = (ranges[0] > 1e-6 * norms2_PN.max(-1)) & (ranges[1] > 0)
    relative = divide(norms2_PN, norms2_PN.mean(-1, keepdims=True))
    halves = [one[varied].reshape(-1, 2, half) for one in (relative, rewards_PN)]
    norms, rewards = (one - one.mean(-1, keepdims=True) for one in halves)
    scale2 = (norms**2).sum(-1) * (rewards**2).sum(-1)
    return (norms * rewards).sum(-1) / (half - 1), np.sqrt(scale2) / (half - 1)


def correlate(run: Analysis) -> tuple[Number, Number] | None:
    """Correlate ||W||^2 with Z within prompts: r on average, and r^2 of single prompts.

    r is the mean covariance over the mean of sd(||W||^2) sd(Z): a sum of covariances has
    mean zero where all are zero, however unlike the spread of ||W||^2 among right and wrong
    completions is. r^2 takes its squares from the covariances of two halves, which are
    independent: it is positive also where prompts of opposite sign cancel in r. None
    without three prompts in which both vary.
    """
    covariances, scales = _covariances(run.pools)
    if len(covariances) < 3:
        return None
    mean = mean_over_prompts(covariances.mean(-1)) / mean_over_prompts(scales.mean(-1))
    square = mean_over_prompts(covariances.prod(-1)) / mean_over_prompts(scales.prod(-1))
    return signed("r", mean, run.level), signed("r^2", square, run.level)


def assumption_2(run: Analysis) -> list[Case]:
    """Judge that ||W||^2 and Z are uncorrelated: on average, and on each prompt."""
    correlations = correlate(run)
    if correlations is None:
        why = "Fewer than three prompts have rewards and score norms that vary."
        return [_open(one, why) for one in (ON_AVERAGE, ON_EACH)]
    return [Case(ON_AVERAGE, correlations[:1]), Case(ON_EACH, correlations[1:])]


def corollary_5(run: Analysis) -> list[Case]:
    """Judge both halves in the limit, where GRPO-type is the oracle.

    The smallest group size has the most replicates. b* comes from other completions, at a
    cost that is taken off.
    """
    best = _compare(run, "oracle", "best-constant", run.compared_sizes[0])
    traces = run.law_of("oracle", 1), run.law_of("vanilla", 1)
    limit = ratio("oracle/vanilla", *traces, run.level)
    return [
        Case(PROMPT_ONLY, (best._replace(group_size=None),), _source(run)),
        _group_means(run),
        Case(VANILLA, (limit,)),
    ]


def _group_means(run: Analysis, size: int = 8) -> Case:
    """Set the fitted alpha + lambda m in proportion to the oracle, for random prompts.

    The two numbers are fitted on other prompts than those that they are priced on.
    """
    if run.pools.prompts < 3:
        return _open(GROUP_MEANS, FEW_PROMPTS)
    table, fit = run.table, fit_at(run.table, size)
    oracle = find_aims(table, "oracle", [size])[size]
    first, second = (table.statistic(aim.noise) for aim in (fit.aim, oracle))
    affine = ratio("affine/oracle", first, second, run.level)
    remark = f"At G = {size}, alpha = {fit.alpha}, lambda = {fit.lam}, by the law."
    return Case(GROUP_MEANS, (affine,), remark)


def section_5_1(run: Analysis) -> list[Case]:
    """Judge the observations on Figure 4 that concern one run."""
    largest = tuple(
        _compare(run, name, "vanilla", size)
        for size in run.compared_sizes
        for name in ("grpo", "oracle")
    )
    return [
        Case(LARGE_GROUPS, largest, _source(run)),
        _near(run, NEAR_AT_8, (8,)),
        _near(run, NEAR_FROM_32, (32, 64)),
        _falls(run),
    ]


def _near(run: Analysis, statement: Statement, wanted: Sequence[int]) -> Case:
    sizes = [size for size in run.compared_sizes if size in wanted]
    if not sizes:
        return _open(statement, f"No group size is {' or '.join(map(str, wanted))}.")
    if run.law_only:
        return _open(statement, f"{_say_distance(run)} {UNTESTED}")
    numbers = tuple(one for size in sizes for one in _near_oracle(run, size))
    return Case(statement, numbers, _say_distance(run))


def _near_oracle(run: Analysis, size: int) -> tuple[Number, Number]:
    """Set GRPO-type in proportion to the oracle, by the law, and by replicates.

    The law's ratio is known far better; the replicates' can only refute it. Under
    Assumption 2 zeta/T is 1 or more, and so the ratio at least 1 + 1/(G-1).
    """
    sides = run.law_of("grpo", size), run.law_of("oracle", size)
    theorem = f", by the theorem {1 + 1 / (size - 1):.4g} or more"
    law = ratio("GRPO-type/oracle", *sides, run.level, size)
    measured = _compare(run, "grpo", "oracle", size)._replace(decides=False)
    by_replicates = measured._replace(label="by replicates", beside=theorem)
    return law._replace(beside=theorem), by_replicates


def _say_distance(run: Analysis) -> str:
    """Say from the moments how fast the ratio falls to one."""
    trace = run.law_of("oracle", 1).value
    zeta = 2 * (run.law_of("grpo", 2).value - run.law_of("oracle", 2).value)
    if trace <= 0:
        return "The oracle's MSE is not measurably positive, so there is no ratio."
    start = max(1 + int(np.ceil(zeta / trace / SMALL)), 2)
    return (
        f"By the law it is 1 + (zeta/T)/(G-1), zeta/T = {number(zeta / trace, 2)}: within "
        f"{SMALL:.0%}, a share of ours, from G = {start} on."
    )


def _falls(run: Analysis) -> Case:
    if len(run.compared_sizes) < 2:
        return _open(FALLS, "The run has one group size.")
    numbers = tuple(
        ratio(name, run.mse_of(one, large), run.mse_of(one, small), run.level, large)
        for small, large in pairwise(run.compared_sizes)
        for one, name in CURVES.items()
    )
    return Case(FALLS, numbers, _source(run))


def order_of_runs(runs: Sequence[Analysis], level: float) -> Case:
    """Judge whether every MSE falls from each run to the next.

    Runs count as independent. Those of one seed and the same prompts share the uniforms
    that draw their completions, which makes intervals between them too wide, if anything.
    Prompts of other forms for one checkpoint are no other models.
    """
    sizes = sorted(set.intersection(*(set(run.compared_sizes) for run in runs)))
    prompts = [str(run.pools.prompts) for run in runs]
    if not sizes:
        return _open(ORDER, "The runs have no group size in common.")
    if runs[0].checkpoint and len({run.checkpoint for run in runs}) == 1:
        return _open(ORDER, f"The runs are of one model, {runs[0].checkpoint}.")
    if len(set(prompts)) > 1:
        unlike = f"The runs have {' and '.join(prompts)} prompts: their aggregates differ."
        return _open(ORDER, unlike)

    def fall(old: Analysis, new: Analysis, one: str, size: int) -> Number:
        label = f"{CURVES[one]}, {last_name(new.name)} over {last_name(old.name)}"
        return ratio(label, new.mse_of(one, size), old.mse_of(one, size), level, size)

    pairs = [(*pair, one) for pair in pairwise(runs) for one in CURVES]
    numbers = tuple(fall(*pair, size) for size in sizes for pair in pairs)
    return Case(ORDER, numbers, _say_gradients(runs))


def _say_gradients(runs: Sequence[Analysis]) -> str:
    """Compare the noise with the gradient, for a raw MSE says little across models."""
    gradients = " -> ".join(number(run.pools.aggregate_norm2) for run in runs)
    names = ", ".join(run.name for run in runs if run.law_only)
    untested = f" By the law alone, for want of replicates: {names}." if names else ""
    return (
        f"The aggregate's ||g||^2 goes {gradients}, so raw and relative MSE need not move "
        f"together.{untested}"
    )


def theorem_7(run: Analysis) -> list[Case]:
    """Judge whether the law's best group size is better than the run's others."""
    if run.pools.prompts < 3:
        return [_open(BEST, FEW_PROMPTS)]
    shown = Number("G*", run.table.best_group_size(run.level))
    if not np.isfinite(shown.estimate.high):
        why = "c1 is not significantly positive, so G* has no upper bound here."
        return [Case(BEST, (), why, "undecided", shown)]
    constants, sizes = run.table.samples, run.compared_sizes
    aims = find_aims(run.table, "grpo", sizes)
    best = min(sizes, key=lambda size: float(aims[size].noise[0]))
    paper = float(np.sqrt(constants.c3[0] / constants.c1[0]))
    known = (
        f"{name} {with_interval(run.table.constant(name, run.level))}"
        for name in ("c1", "c2", "c3")
    )
    remark = (
        f"{', '.join(known)}; {shown.written}, the paper's sqrt(c3/c1) "
        f"{number(paper)}. Of G = {', '.join(map(str, sizes))} the law's best is {best}."
    )
    if run.law_only:
        return [_open(BEST, f"{remark} {UNTESTED}", shown)]
    numbers = tuple(_set_against(run, best, size) for size in sizes if size != best)
    if sizes[0] < best < sizes[-1]:
        return [Case(BEST, numbers, remark, shown=shown)]
    edge = f"{remark} No size of the run lies beyond that, so no minimum was seen."
    return [Case(BEST, numbers, edge, "undecided", shown)]


def _set_against(run: Analysis, best: int, size: int) -> Number:
    """Set N x MSE at the law's best size in proportion to that at another, by replicates.

    c1 is common to both sides, and held at its estimate.
    """
    prompts, c1 = run.pools.prompts, float(run.table.samples.c1[0])

    def cost(one: int) -> Statistic:
        return run.mse_of("grpo", one) * (one * prompts) + Statistic(c1 * one, {}, {})

    label = f"N x MSE at G = {best} over that at {size}"
    return ratio(label, cost(best), cost(size), run.level, size)


# In the order of the paper.
STATEMENTS: tuple[Callable[[Analysis], list[Case]], ...] = (
    lemma_1,
    theorem_2,
    assumption_2,
    corollary_5,
    section_5_1,
    theorem_7,
    lambda _: [_open(TRAININGS, "The paper's models and data for it are not here.")],
)


def judge_run(run: Analysis) -> list[Claim]:
    """Put every statement about one run to it, in the order of the paper."""
    if not run.compared_sizes:
        sizes = list(run.group_sizes)
        raise InputError(f"{run.name}: group_sizes = {sizes}: claims need one of 2 or more")
    return judge([case for put_to in STATEMENTS for case in put_to(run)], (run.name,))


def judge_runs(runs: Sequence[Analysis]) -> list[Claim]:
    """Put every statement to runs, given in the order in which MSEs are claimed to fall.

    Claims are in the order of the paper for each run, then those that compare runs. The
    verdict on a whole statement comes before those at its group sizes.
    """
    names = tuple(run.name for run in runs)
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs are named {name}; judge them one at a time")
    claims = [claim for run in runs for claim in judge_run(run)]
    if len(runs) < 2:
        return claims
    level = max(run.level for run in runs)
    return [*claims, *judge([order_of_runs(runs, level)], names)]
