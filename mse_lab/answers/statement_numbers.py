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
    Number,
    Statement,
    judge,
    last_name,
    ratio,
    signed,
)
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statements import (
    BEST,
    FALLS,
    FREE,
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
from mse_lab.mse.constants import mse_times_budget
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts
from mse_lab.mse.regime import crossing_size, oracle_gain
from mse_lab.mse.replicates import Key, form_groups, group_grams

# Far above the rounding of sums of at most some thousand float64, far below 1/G.
ROUNDING = 1e-10

UNTESTED = "Without replicates nothing can tell the law from the truth."
FEW_PROMPTS = "Prompts are the independent units, and three are the fewest."

CURVES = {"vanilla": "vanilla", "grpo": "GRPO-type", "oracle": "oracle"}


def _open(statement: Statement, why: str, shown: Number | None = None) -> Case:
    """Leave a statement undecided, and say why."""
    return Case(statement, remark=why, verdict="undecided", shown=shown)


def _source(run: MeasuredRun) -> str:
    return "By the law alone, for there are no replicates." if run.law_only else ""


def _compare(run: MeasuredRun, first: str, second: str, size: int) -> Number:
    """Set an estimator's MSE in proportion to another's on the same groups."""
    label = f"{CURVES.get(first, first)}/{CURVES.get(second, second)}"
    return ratio(label, run.mse_of(first, size), run.mse_of(second, size), run.level)


WeightRule = Callable[[Groups], Floats]


def largest_difference(
    pools: Pools, group_size: int, weights: WeightRule = grpo
) -> tuple[float, bool]:
    """Find the largest distance to the pairwise form; also whether it is exact, or a bound.

    (1/G) sum_i w_i W_i and 2/(G(G-1)) sum_{i<j} (W_i - W_j)(Z_i - Z_j)/2 differ by
    sum_i d_i W_i with d_i = w_i/G - sum_{j != i} (Z_i - Z_j) / (G(G-1)): in square by d'Kd,
    or, where products in K are unknown, by (sum_i |d_i| ||W_i||)^2 at most. The distance is
    relative to (1/G) sum_i |w_i| ||W_i||, which cannot vanish by cancellation.
    """
    groups = form_groups(pools, group_size)
    weights_PRG, rewards_PRG = weights(groups) / group_size, groups.rewards_PRG
    pairs_PRGG = rewards_PRG[..., :, None] - rewards_PRG[..., None, :]
    apart_PRG = weights_PRG - pairs_PRGG.sum(-1) / (group_size * (group_size - 1))
    norms_PRG = np.sqrt(groups.norms2_PRG)
    products = (apart_PRG[:, :, None, :] @ group_grams(pools, group_size))[:, :, 0]
    exact = np.sqrt(np.abs((products * apart_PRG).sum(-1)))
    distance = np.where(np.isnan(exact), (np.abs(apart_PRG) * norms_PRG).sum(-1), exact)
    length = (np.abs(weights_PRG) * norms_PRG).sum(-1)
    return float(divide(distance, length).max()), not np.isnan(exact).any()


def lemma_1(run: MeasuredRun, weights: WeightRule = grpo) -> list[Case]:
    """Compare the estimator with the pairwise form in every group of every size."""
    found = [largest_difference(run.pools, size, weights) for size in run.sizes]
    largest, exact = max(one for one, _ in found), all(known for _, known in found)
    remark = (
        f"The largest relative difference in any group is {'' if exact else 'at most '}"
        f"{number(largest, 2)}; rounding makes less than {number(ROUNDING, 1)}."
    )
    shown = Number("apart", Estimate(largest, np.nan, np.nan))
    if largest < ROUNDING:
        return [Case(LEMMA, remark=remark, verdict="holds", shown=shown)]
    return [Case(LEMMA, (), None, remark, "fails" if exact else "undecided", shown)]


def _mean_errors(run: MeasuredRun, name: str, size: int) -> Floats:
    return np.asarray(run.compared_errors[Key(name, size)].mean(-1))


def _against_law(run: MeasuredRun, size: int, between: float = 0.0) -> Number:
    """Set GRPO-type's errors in proportion to each prompt's law, prompts being the units.

    `between` is c1, by which both are larger where prompts are drawn at random.
    """
    law_P = run.curves.prompts_by_law(find_estimator("grpo"), size)
    apart = mean_over_prompts(_mean_errors(run, "grpo", size) - law_P)
    law = Statistic(float(law_P.mean()) + between, {}, {})
    return ratio("measured/law", law + apart, law, run.level)


def theorem_2(run: MeasuredRun) -> list[Case]:
    """Judge the law at each group size, then the line through all of them."""
    if run.law_only or run.pools.prompts < 3:
        why = UNTESTED if run.law_only else FEW_PROMPTS
        return [_open(statement, why) for statement in (LAW, INTERCEPT, SLOPE)]
    laws = [Case(LAW, (_against_law(run, size),), size) for size in run.sizes]
    line = fit_line(run)
    if line is None:
        why = "A line needs two group sizes and rewards that vary."
        return [*laws, _open(INTERCEPT, why), _open(SLOPE, why)]
    return [*laws, Case(INTERCEPT, line[:1]), Case(SLOPE, line[1:])]


def fit_line(run: MeasuredRun) -> tuple[Number, Number] | None:
    """Fit intercept and slope of G x MSE against 1/(G-1), over T and zeta.

    By least squares, to what the errors of each prompt deviate from its law by, weighted by
    the inverse variance at each size. The sizes share their completions, so the covariance
    is robust, with prompts for clusters. None where nothing varies.
    """
    from statsmodels.regression.linear_model import WLS

    moments, prompts = run.moments, run.pools.prompts
    trace_P, zeta_P = moments.trace_oracle, moments.zeta
    deviations, lines = [], []
    for size in run.sizes:
        law_P = trace_P + zeta_P / (size - 1)
        deviations.append(size * _mean_errors(run, "grpo", size) - law_P)
        lines.append([trace_P.mean(), zeta_P.mean() / (size - 1)])
    variances = np.var(deviations, axis=-1)
    if len(run.sizes) < 2 or min(variances) <= 0 or np.min(lines) <= 0:
        return None
    clusters = np.tile(np.arange(prompts), len(run.sizes))
    fit = WLS(
        np.concatenate(deviations),
        np.repeat(lines, prompts, axis=0),
        weights=np.repeat(1 / variances, prompts),
    ).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    intercept, slope = (
        Number(
            label, Estimate(1 + value, 1 + low, 1 + high), error, prompts - 1, np.asarray
        )
        for label, value, (low, high), error in zip(
            ("fit/T", "fit/zeta"),
            fit.params,
            fit.conf_int(1 - run.level),
            fit.bse,
            strict=True,
        )
    )
    return intercept, slope


def proposition_3(run: MeasuredRun) -> list[Case]:
    """Judge B x MSE = c1 + c2/G + c3/(G(G-1)) at each size, for prompts drawn at random."""
    if run.pools.prompts < 3:
        return [_open(RANDOM_PROMPTS, FEW_PROMPTS)]
    spread = f"c1 = {with_interval(run.constants['c1'])}."
    if run.law_only:
        return [_open(RANDOM_PROMPTS, f"{spread} {UNTESTED}")]
    c1 = float(run.table.constants.nonnegative_c1.item())
    remark = (
        f"{spread} That prompts drawn independently add c1/B is algebra, not evidence: "
        "tested is c2/G + c3/(G(G-1))."
    )
    cases = [
        Case(RANDOM_PROMPTS, (_against_law(run, size, c1),), size) for size in run.sizes
    ]
    return [Case(RANDOM_PROMPTS, remark=remark), *cases]


def _near_oracle(run: MeasuredRun, size: int) -> tuple[Number, ...]:
    """Set GRPO-type in proportion to the oracle, by the law, and by replicates.

    The law's ratio is known far better; the replicates' can only refute it.
    """
    label = "GRPO-type/oracle"
    law = ratio(label, run.law_of("grpo", size), run.law_of("oracle", size), run.level)
    measured = _compare(run, "grpo", "oracle", size)
    return law, measured._replace(label="by replicates", decides=False)


def _say_distance(run: MeasuredRun) -> str:
    """Say from the moments how fast the ratio falls to one."""
    trace, zeta = run.oracle_trace.value, run.zeta.value
    if trace <= 0:
        return "The oracle's MSE is not measurably positive, so there is no ratio."
    start = max(1 + int(np.ceil(zeta / trace / SMALL)), 2)
    return (
        f"By the law it is 1 + (zeta/T)/(G-1), zeta/T = {number(zeta / trace, 2)}: within "
        f"{SMALL:.0%} from G = {start} on."
    )


def corollary_4(run: MeasuredRun) -> list[Case]:
    """Judge the limit by the largest group size, where that is large enough for it."""
    size, remark = run.sizes[-1], _say_distance(run)
    if run.law_only:
        return [_open(LIMIT, f"{remark} {UNTESTED}")]
    law, measured = _near_oracle(run, size)
    if not law.estimate.high < 1 + SMALL:
        return [_open(LIMIT, f"G = {size} is too small for the limit. {remark}", law)]
    return [Case(LIMIT, (law, measured), remark=f"At G = {size}. {remark}")]


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


def correlate(run: MeasuredRun) -> tuple[Number, Number] | None:
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


def assumption_2(run: MeasuredRun) -> list[Case]:
    """Judge that ||W||^2 and Z are uncorrelated: on average, and on each prompt."""
    found = correlate(run)
    if found is None:
        why = "Fewer than three prompts have rewards and score norms that vary."
        return [_open(one, why) for one in (ON_AVERAGE, ON_EACH)]
    moments = run.moments
    best, value = (
        float(divide(one @ moments.norm2, moments.norm2.sum()))
        for one in (moments.best_baseline, moments.value)
    )
    sizes = f"b* is {number(best, 2)} and V {number(value, 2)}"
    remark = f"Weighted by E||W||^2, the best baseline {sizes}."
    return [Case(ON_AVERAGE, found[:1], remark=remark), Case(ON_EACH, found[1:])]


def corollary_5(run: MeasuredRun) -> list[Case]:
    """Judge both halves in the limit, where GRPO-type is the oracle.

    The smallest group size has the most replicates. b* comes from other completions, at a
    cost that is taken off.
    """
    best = _compare(run, "oracle", "best-constant", run.sizes[0])
    limit = ratio("oracle/vanilla", run.oracle_trace, run.vanilla_trace, run.level)
    return [
        Case(PROMPT_ONLY, (best,), remark=_source(run)),
        Case(VANILLA, (limit,), remark=say_crossing(run)),
    ]


def say_crossing(run: MeasuredRun) -> str:
    """Say on how many prompts vanilla is worse, and from which G on GRPO-type beats it."""
    from statsmodels.stats.proportion import proportion_confint

    gain_P = oracle_gain(run.moments)
    worse, compared = int((gain_P > 0).sum()), int((gain_P != 0).sum())
    if not compared:
        return "On no prompt the two differ."
    low, high = proportion_confint(worse, compared, alpha=1 - run.level, method="wilson")
    share = percent((worse / compared, float(low), float(high)))
    gain = run.vanilla_trace.value - run.oracle_trace.value
    start = float(crossing_size(gain, run.zeta.value))
    where = f"from G = {number(start, 2)} on" if np.isfinite(start) else "at no G"
    return (
        f"By the moments vanilla is the worse on {worse} of {compared} prompts, {share}; "
        f"GRPO-type beats it {where}."
    )


def section_5_1(run: MeasuredRun) -> list[Case]:
    """Judge the observations on Figure 4 that concern one run."""
    largest = [
        Case(
            LARGE_GROUPS,
            tuple(_compare(run, name, "vanilla", size) for name in ("grpo", "oracle")),
            size,
        )
        for size in run.sizes
    ]
    return [
        Case(LARGE_GROUPS, remark=_source(run)),
        *largest,
        *_near(run, NEAR_AT_8, (8,)),
        *_near(run, NEAR_FROM_32, (32, 64)),
        *_falls(run),
    ]


def _near(run: MeasuredRun, statement: Statement, wanted: Sequence[int]) -> list[Case]:
    sizes = [size for size in run.sizes if size in wanted]
    if not sizes:
        return [_open(statement, f"No group size is {' or '.join(map(str, wanted))}.")]
    if run.law_only:
        return [_open(statement, f"{_say_distance(run)} {UNTESTED}")]
    cases = [Case(statement, _near_oracle(run, size), size) for size in sizes]
    return [Case(statement, remark=_say_distance(run)), *cases]


def _falls(run: MeasuredRun) -> list[Case]:
    if len(run.sizes) < 2:
        return [_open(FALLS, "The run has one group size.")]
    cases = [
        Case(
            FALLS,
            tuple(
                ratio(name, run.mse_of(one, large), run.mse_of(one, small), run.level)
                for one, name in CURVES.items()
            ),
            large,
        )
        for small, large in pairwise(run.sizes)
    ]
    return [Case(FALLS, remark=_source(run)), *cases]


def order_of_runs(runs: Sequence[MeasuredRun], level: float) -> list[Case]:
    """Judge whether every MSE falls from each run to the next.

    Runs count as independent. Those of one seed and the same prompts share the uniforms
    that draw their completions, which makes intervals between them too wide, if anything.
    """
    sizes = sorted(set.intersection(*(set(run.sizes) for run in runs)))
    prompts = [str(run.pools.prompts) for run in runs]
    if not sizes:
        return [_open(ORDER, "The runs have no group size in common.")]
    if len(set(prompts)) > 1:
        unlike = f"The runs have {' and '.join(prompts)} prompts: their aggregates differ."
        return [_open(ORDER, unlike)]

    def fall(old: MeasuredRun, new: MeasuredRun, one: str, size: int) -> Number:
        label = f"{CURVES[one]}, {last_name(new.name)} over {last_name(old.name)}"
        return ratio(label, new.mse_of(one, size), old.mse_of(one, size), level)

    pairs = [(*pair, one) for pair in pairwise(runs) for one in CURVES]
    cases = [Case(ORDER, tuple(fall(*one, size) for one in pairs), size) for size in sizes]
    return [Case(ORDER, remark=_say_gradients(runs)), *cases]


def _say_gradients(runs: Sequence[MeasuredRun]) -> str:
    """Compare the noise with the gradient, for a raw MSE says little across models."""
    gradients = " -> ".join(number(run.pools.aggregate_norm2) for run in runs)
    names = ", ".join(run.name for run in runs if run.law_only)
    untested = f" By the law alone, for want of replicates: {names}." if names else ""
    return (
        f"The aggregate's ||g||^2 goes {gradients}, so raw and relative MSE need not move "
        f"together.{untested}"
    )


def theorem_7(run: MeasuredRun) -> list[Case]:
    """Judge whether another size beats the law's best, and note that no N is in it."""
    if run.pools.prompts < 3:
        return [_open(statement, FEW_PROMPTS) for statement in (BEST, FREE)]
    shown = Number("G*", run.best_group_size)
    if not np.isfinite(shown.estimate.high):
        why = "c1 is not significantly positive, so G* has no upper bound here."
        return [_open(BEST, why, shown), _open(FREE, why, shown)]
    remark = "True by construction: N x MSE = c1 G + c2 + c3/(G-1) holds no N."
    free = Case(FREE, remark=remark, verdict="holds", shown=shown)
    return [*_judge_best(run, shown), free]


def _judge_best(run: MeasuredRun, shown: Number) -> list[Case]:
    constants, sizes = run.table.constants, run.sizes
    best = sizes[int(np.argmin(mse_times_budget("grpo", constants, np.array(sizes))))]
    paper = float(np.sqrt(constants.c3.item() / constants.c1.item()))
    known = (f"{name} {with_interval(run.constants[name])}" for name in ("c1", "c2", "c3"))
    remark = (
        f"{', '.join(known)}; G* {with_interval(shown.estimate)}, the paper's sqrt(c3/c1) "
        f"{number(paper)}. Of G = {', '.join(map(str, sizes))} the law's best is {best}."
    )
    if run.law_only:
        return [_open(BEST, f"{remark} {UNTESTED}", shown)]
    others = [
        Case(BEST, (_set_against(run, best, size),), size) for size in sizes if size != best
    ]
    if sizes[0] < best < sizes[-1]:
        return [Case(BEST, remark=remark, shown=shown), *others]
    edge = f"{remark} No size of the run lies beyond that, so no minimum was seen."
    return [_open(BEST, edge, shown), *others]


def _set_against(run: MeasuredRun, best: int, size: int) -> Number:
    """Set N x MSE at the law's best size in proportion to that at another, by replicates.

    c1 is common to both sides, and held at its estimate.
    """
    prompts, c1 = run.pools.prompts, float(run.table.constants.c1.item())

    def cost(one: int) -> Statistic:
        return run.mse_of("grpo", one) * (one * prompts) + Statistic(c1 * one, {}, {})

    label = f"N x MSE at G = {best} over that at {size}"
    return ratio(label, cost(best), cost(size), run.level)


# In the order of the paper.
STATEMENTS: tuple[Callable[[MeasuredRun], list[Case]], ...] = (
    lemma_1,
    theorem_2,
    proposition_3,
    corollary_4,
    assumption_2,
    corollary_5,
    section_5_1,
    theorem_7,
)


def judge_run(run: MeasuredRun) -> list[Claim]:
    """Put every statement about one run to it, in the order of the paper."""
    if not run.sizes:
        sizes = list(run.group_sizes)
        raise InputError(f"{run.where}group_sizes = {sizes}: claims need one of 2 or more")
    cases = [case for put_to in STATEMENTS for case in put_to(run)]
    return judge(cases, (run.name,), run.level)


def judge_runs(runs: Sequence[MeasuredRun]) -> list[Claim]:
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
    return [*claims, *judge(order_of_runs(runs, level), names, level)]
