"""Numbers of a run that each statement of the paper is put to.

Where a law is tested, prompts are the independent units: on each the errors deviate from
the law at its own moments by noise of mean zero, the reference's with it. So two blocks of
completions leave the degrees of freedom of the prompts, and not one.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from mse_lab.answers.claims import (
    SMALL,
    Case,
    Claim,
    ClaimVerdict,
    Number,
    Statement,
    judge,
    last_name,
    ratio,
    signed,
)
from mse_lab.answers.statements import (
    BEST,
    FALLS,
    GROUP_MEANS,
    INTERCEPT,
    LARGE_GROUPS,
    LAW,
    LEMMA,
    LIMIT,
    NEAR_AT_8,
    NEAR_FROM_32,
    ON_AVERAGE,
    ON_EACH,
    ORDER,
    PROMPT_ONLY,
    RANDOM_PROMPTS,
    SLOPE,
    VANILLA,
)
from mse_lab.arrays import Floats, divide
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.baselines import grpo
from mse_lab.estimators.groups import Groups
from mse_lab.formatting import number, percent, with_interval
from mse_lab.mse.baseline import fit_at
from mse_lab.mse.constants import mse_times_budget
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.loss import Aim
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts
from mse_lab.mse.regime import oracle_gain
from mse_lab.mse.replicates import Key, form_groups
from mse_lab.results.analysis import Analysis

# Far above the rounding of sums of at most some thousand float64, far below 1/G.
ROUNDING = 1e-10

UNTESTED = "Without replicates nothing can tell the law from the truth."
FEW_PROMPTS = "Prompts are the independent units, and three are the fewest."

CURVES = {"vanilla": "vanilla", "grpo": "GRPO-type", "oracle": "oracle"}


def _open(statement: Statement, why: str, shown: Number | None = None) -> Case:
    """Leave a statement undecided, and say why."""
    return Case(statement, remark=why, verdict="undecided", shown=shown)


def _source(run: Analysis) -> str:
    return "By the law alone, for there are no replicates." if run.law_only else ""


def _compare(run: Analysis, first: str, second: str, size: int) -> Number:
    """Set an estimator's MSE in proportion to another's on the same groups."""
    label = f"{CURVES.get(first, first)}/{CURVES.get(second, second)}"
    sides = run.mse_of(first, size), run.mse_of(second, size)
    return ratio(label, *sides, run.level, size)


WeightRule = Callable[[Groups], Floats]


def largest_difference(pools: Pools, group_size: int, weights: WeightRule = grpo) -> float:
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
    remark = (
        f"The largest relative difference of weights in any group is {number(largest, 2)}; "
        f"rounding makes less than {number(ROUNDING, 1)}."
    )
    shown = Number("apart", Estimate(largest, np.nan, np.nan))
    verdict: ClaimVerdict = "holds" if largest < ROUNDING else "fails"
    return [Case(LEMMA, remark=remark, verdict=verdict, shown=shown)]


def _mean_errors(run: Analysis, name: str, size: int) -> Floats:
    return np.asarray(run.compared_errors[Key(name, size)].mean(-1))


def _against_law(run: Analysis, size: int, between: float = 0.0) -> Number:
    """Set GRPO-type's errors in proportion to each prompt's law, prompts being the units.

    `between` is c1, by which both are larger where prompts are drawn at random.
    """
    law_P = run.curves.prompts_by_law(find_estimator("grpo"), size)
    apart = mean_over_prompts(_mean_errors(run, "grpo", size) - law_P)
    law = Statistic(float(law_P.mean()) + between, {}, {})
    return ratio("measured/law", law + apart, law, run.level, size)


def theorem_2(run: Analysis) -> list[Case]:
    """Judge the law at each group size, then the line through all of them."""
    if run.law_only or run.pools.prompts < 3:
        why = UNTESTED if run.law_only else FEW_PROMPTS
        return [_open(statement, why) for statement in (LAW, INTERCEPT, SLOPE)]
    laws = Case(LAW, tuple(_against_law(run, size) for size in run.compared_sizes))
    line = fit_line(run)
    if line is None:
        why = "A line needs two group sizes and rewards that vary."
        return [laws, _open(INTERCEPT, why), _open(SLOPE, why)]
    return [laws, Case(INTERCEPT, line[:1]), Case(SLOPE, line[1:])]


def fit_line(run: Analysis) -> tuple[Number, Number] | None:
    """Fit intercept and slope of G x MSE against 1/(G-1), over T and zeta.

    By least squares, to what the errors of each prompt deviate from its law by, weighted by
    the inverse variance at each size. The sizes share their completions, so the covariance
    is robust, with prompts for clusters. None where nothing varies.
    """
    from statsmodels.regression.linear_model import WLS

    moments, prompts = run.moments, run.pools.prompts
    trace_P, zeta_P = moments.trace_oracle, moments.zeta
    deviations, lines = [], []
    for size in run.compared_sizes:
        law_P = trace_P + zeta_P / (size - 1)
        deviations.append(size * _mean_errors(run, "grpo", size) - law_P)
        lines.append([trace_P.mean(), zeta_P.mean() / (size - 1)])
    variances = np.var(deviations, axis=-1)
    if len(run.compared_sizes) < 2 or min(variances) <= 0 or np.min(lines) <= 0:
        return None
    clusters = np.tile(np.arange(prompts), len(run.compared_sizes))
    fit = WLS(
        np.concatenate(deviations),
        np.repeat(lines, prompts, axis=0),
        weights=np.repeat(1 / variances, prompts),
    ).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    fitted = zip(fit.params, fit.conf_int(1 - run.level), fit.bse, strict=True)
    estimates = [
        (Estimate(1 + value, 1 + low, 1 + high), error, prompts - 1, run.level)
        for value, (low, high), error in fitted
    ]
    intercept, slope = (
        Number(label, *one, logarithmic=False)
        for label, one in zip(("fit/T", "fit/zeta"), estimates, strict=True)
    )
    return intercept, slope


def proposition_3(run: Analysis) -> list[Case]:
    """Judge B x MSE = c1 + c2/G + c3/(G(G-1)) at each size, for prompts drawn at random."""
    if run.pools.prompts < 3:
        return [_open(RANDOM_PROMPTS, FEW_PROMPTS)]
    spread = f"c1 = {with_interval(run.table.constant('c1', run.level))}."
    if run.law_only:
        return [_open(RANDOM_PROMPTS, f"{spread} {UNTESTED}")]
    c1 = float(run.table.constants.nonnegative_c1.item())
    remark = (
        f"{spread} That prompts drawn independently add c1/B is algebra, not evidence: "
        "tested is c2/G + c3/(G(G-1))."
    )
    numbers = tuple(_against_law(run, size, c1) for size in run.compared_sizes)
    return [Case(RANDOM_PROMPTS, numbers, remark)]


def _near_oracle(run: Analysis, size: int) -> tuple[Number, ...]:
    """Set GRPO-type in proportion to the oracle, by the law, and by replicates.

    The law's ratio is known far better; the replicates' can only refute it.
    """
    sides = run.law_of("grpo", size), run.law_of("oracle", size)
    law = ratio("GRPO-type/oracle", *sides, run.level, size)
    measured = _compare(run, "grpo", "oracle", size)
    return law, measured._replace(label="by replicates", decides=False)


def _say_distance(run: Analysis) -> str:
    """Say from the moments how fast the ratio falls to one."""
    trace = run.law_of("oracle", 1).value
    zeta = 2 * (run.law_of("grpo", 2).value - run.law_of("oracle", 2).value)
    if trace <= 0:
        return "The oracle's MSE is not measurably positive, so there is no ratio."
    start = max(1 + int(np.ceil(zeta / trace / SMALL)), 2)
    return (
        f"By the law it is 1 + (zeta/T)/(G-1), zeta/T = {number(zeta / trace, 2)}: within "
        f"{SMALL:.0%} from G = {start} on. Under Assumption 2 zeta/T is 1 or more, so that "
        "Theorem 2 itself has 1 + 1/(G-1): 1.14 at 8, 1.032 at 32; the share is ours."
    )


def corollary_4(run: Analysis) -> list[Case]:
    """Judge the limit by the largest group size, where that is large enough for it."""
    size, remark = run.compared_sizes[-1], _say_distance(run)
    if run.law_only:
        return [_open(LIMIT, f"{remark} {UNTESTED}")]
    law, measured = _near_oracle(run, size)
    if not law.estimate.high < 1 + SMALL:
        return [_open(LIMIT, f"G = {size} is too small for the limit. {remark}", law)]
    numbers = tuple(one._replace(group_size=None) for one in (law, measured))
    return [Case(LIMIT, numbers, f"At G = {size}. {remark}")]


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
    moments = run.moments
    best, value = (
        float(divide(one @ moments.norm2, moments.norm2.sum()))
        for one in (moments.best_baseline, moments.value)
    )
    sizes = f"b* is {number(best, 2)} and V {number(value, 2)}"
    remark = f"Weighted by E||W||^2, the best baseline {sizes}."
    return [
        Case(ON_AVERAGE, correlations[:1], remark=remark),
        Case(ON_EACH, correlations[1:]),
    ]


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
        Case(VANILLA, (limit,), say_sides(run)),
    ]


def _group_means(run: Analysis, size: int = 8) -> Case:
    """Set the fitted alpha + lambda m in proportion to the oracle, for random prompts.

    The two numbers are fitted on other prompts than those that they are priced on.
    """
    if run.pools.prompts < 3:
        return _open(GROUP_MEANS, FEW_PROMPTS)
    table, fit = run.table, fit_at(run.table, size)
    oracle = Aim.of_unbiased(table.samples, "oracle", size)
    first, second = (
        table.statistic(lambda _, one: one, aim.noise) for aim in (fit.aim, oracle)
    )
    affine = ratio("affine/oracle", first, second, run.level)
    remark = f"At G = {size}, alpha = {fit.alpha}, lambda = {fit.lam}, by the law."
    return Case(GROUP_MEANS, (affine,), remark)


def say_sides(run: Analysis) -> str:
    """Say on how many prompts vanilla is worse than the oracle, by their moments."""
    from statsmodels.stats.proportion import proportion_confint

    gain_P = oracle_gain(run.moments)
    worse, compared = int((gain_P > 0).sum()), int((gain_P != 0).sum())
    if not compared:
        return "On no prompt the two differ."
    low, high = proportion_confint(worse, compared, alpha=1 - run.level, method="wilson")
    share = percent((worse / compared, float(low), float(high)))
    return f"By the moments vanilla is the worse on {worse} of {compared} prompts, {share}."


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
    """
    sizes = sorted(set.intersection(*(set(run.compared_sizes) for run in runs)))
    prompts = [str(run.pools.prompts) for run in runs]
    if not sizes:
        return _open(ORDER, "The runs have no group size in common.")
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
        return [_open(BEST, why, shown)]
    constants, sizes = run.table.constants, run.compared_sizes
    best = sizes[int(np.argmin(mse_times_budget("grpo", constants, np.array(sizes))))]
    paper = float(np.sqrt(constants.c3.item() / constants.c1.item()))
    known = (
        f"{name} {with_interval(run.table.constant(name, run.level))}"
        for name in ("c1", "c2", "c3")
    )
    remark = (
        f"{', '.join(known)}; G* {with_interval(shown.estimate)}, the paper's sqrt(c3/c1) "
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
    prompts, c1 = run.pools.prompts, float(run.table.constants.c1.item())

    def cost(one: int) -> Statistic:
        return run.mse_of("grpo", one) * (one * prompts) + Statistic(c1 * one, {}, {})

    label = f"N x MSE at G = {best} over that at {size}"
    return ratio(label, cost(best), cost(size), run.level, size)


# In the order of the paper.
STATEMENTS: tuple[Callable[[Analysis], list[Case]], ...] = (
    lemma_1,
    theorem_2,
    proposition_3,
    corollary_4,
    assumption_2,
    corollary_5,
    section_5_1,
    theorem_7,
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
