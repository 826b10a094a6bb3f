"""What every printed number of a run should have been, where prompts and laws are known.

A run's prompts are drawn from a population of some thousand. Numbers of its fixed prompts
(MSE, law, ratios, rho of a prompt) are held against those prompts' exact laws, numbers over
random prompts (advice, regime) against the population's.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from scipy import optimize, stats

from mse_lab.answers import statements as s
from mse_lab.answers.advice import Advice
from mse_lab.answers.statements import judge_run
from mse_lab.arrays import Floats, divide
from mse_lab.config.schema import EstimatorEntry
from mse_lab.config.training import DEFAULT
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.mse.baseline import fit_at
from mse_lab.mse.curves import Between, Decomposition, Inputs
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.laws import WRONG_RIGHT, find_law
from mse_lab.mse.loss import Aim
from mse_lab.mse.moments import Moments
from mse_lab.mse.prompt_table import Constants
from mse_lab.mse.regime import Regime, aggregate_place, norm_ratio, oracle_gain
from mse_lab.mse.replicates import Key
from mse_lab.results.analysis import interval_heads
from simulated import Design

# A verdict is counted as an interval that holds 1, the truth being 0 where it is false.
HOLDS = Estimate(1.0, 1.0, 1.0)

TRL = find_estimator({name: DEFAULT.estimator[name] for name in ("name", "eps")})

# Which MSE GRPO-type's, or the oracle's in the limit, is set in proportion to.
BASES = {s.NEAR_AT_8: "oracle", s.NEAR_FROM_32: "oracle", s.LARGE_GROUPS: "vanilla"}


@dataclass(frozen=True)
class Answer:
    """A printed number: its name, its interval, and the truth; of one kind of number."""

    kind: str
    name: str
    found: Estimate
    truth: float

    @property
    def known(self) -> bool:
        """Whether it is an interval, with a number or not, and has a truth."""
        return not np.isnan([*self.found[1:], self.truth]).any()

    @property
    def covers(self) -> bool:
        """Whether the interval holds the truth, up to rounding."""
        room = 1e-9 * abs(self.truth)
        return self.found.low - room <= self.truth <= self.found.high + room


# Up to so many values of the reward every composition of a group is listed.
MOST_VALUES = 4


def few_values_law(design: Design, estimator: Estimator, size: int):
    """E||g_hat||^2 of each prompt, and its mean, by every composition of a group."""
    values = np.unique(design.reward_PC)
    ways = combinations_with_replacement(range(len(values)), size)
    group_LG = np.array(list(ways))
    weights_LG = estimator.weights(Groups.of_rewards(values[group_LG]))[0] / size
    alike_LGV = group_LG[..., None] == np.arange(len(values))
    counts_LV = alike_LGV.sum(1)
    sums_LV, squares_LV = (
        np.einsum("lg,lgv->lv", one, alike_LGV) for one in (weights_LG, weights_LG**2)
    )
    pairs_LVV = sums_LV[..., None] * sums_LV[:, None] - (
        squares_LV[..., None] * np.eye(len(values))
    )
    part_PCV = design.probability_PC[..., None] * (design.reward_PC[..., None] == values)
    chance_PV = part_PCV.sum(1)
    mean_PVD = np.einsum("pcv,pcd->pvd", part_PCV, design.score_PCD)
    mean_PVD = divide(mean_PVD, chance_PV[..., None])
    norms2_PC = (design.score_PCD**2).sum(-1)
    norms2_PV = divide(np.einsum("pcv,pc->pv", part_PCV, norms2_PC), chance_PV)
    second, means = [], []
    for some in np.array_split(np.arange(design.prompts), -(-design.prompts // 200)):
        chance_PL = stats.multinomial.pmf(counts_LV, size, chance_PV[some][:, None])
        gram_PVV = mean_PVD[some] @ mean_PVD[some].swapaxes(1, 2)
        second.append(
            (chance_PL @ squares_LV * norms2_PV[some]).sum(-1)
            + (np.einsum("pl,lvw->pvw", chance_PL, pairs_LVV) * gram_PVV).sum((1, 2))
        )
        means.append(np.einsum("pl,lv,pvd->pd", chance_PL, sums_LV, mean_PVD[some]))
    return np.concatenate(second), np.concatenate(means)


@dataclass(frozen=True)
class Truth:
    """Exact figures of a design: of a run's own prompts, or of their population."""

    design: Design

    @cached_property
    def moments(self) -> Moments:
        """Of each prompt."""
        return self.design.moments()

    @cached_property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1."""
        return bool(np.isin(self.design.reward_PC, (0, 1)).all())

    def decomposed(self, estimator: Estimator, size: int) -> Decomposition:
        """Take the aggregate's mean square over these prompts apart."""
        gradient_PD, law = self.design.gradient_PD, self._law(estimator, size)
        mse_P = law.second - (2 * law.slope - 1) * self.moments.gradient2
        products = gradient_PD @ gradient_PD.T
        inputs = Inputs(self.moments, Between(products, np.zeros_like(products)))
        return inputs.aggregate(mse_P, law.slope, law.slope)

    @cached_property
    def _listed(self) -> dict[tuple[str, int], tuple[Floats, Floats]]:
        return {}

    def _law(self, estimator: Estimator, size: int):
        return find_law(estimator, size, WRONG_RIGHT if self.binary else None)(self.moments)

    def _means(self, estimator: Estimator, size: int) -> tuple[Floats, Floats]:
        """E||g_hat||^2 of each prompt, and h(x), (P, D)."""
        if not self.binary:
            if (estimator.name, size) not in self._listed:
                law = few_values_law(self.design, estimator, size)
                self._listed[estimator.name, size] = law
            return self._listed[estimator.name, size]
        law = self._law(estimator, size)
        return law.second, law.slope[:, None] * self.design.gradient_PD

    def _is_known(self, estimator: Estimator, size: int) -> bool:
        if self.binary:
            return find_law(estimator, size) is not None
        few = len(np.unique(self.design.reward_PC)) <= MOST_VALUES
        return few and estimator.reward_only and not estimator.binary

    @cached_property
    def constants(self) -> Constants:
        """c1 to c3 and their like over this population."""
        moments, gradient_PD = self.moments, self.design.gradient_PD
        mean = gradient_PD.mean(0)
        value = moments.value.mean()
        found = {
            "c1": ((gradient_PD - mean) ** 2).sum(-1).mean(),
            "c2": moments.trace_oracle.mean(),
            "c3": moments.zeta.mean(),
            "vanilla": moments.constant_baseline(0.0).mean(),
            "batch_mean": moments.constant_baseline(value).mean(),
            "best_constant": moments.trace_best.mean(),
            "gradient2": mean @ mean,
        }
        return Constants(**{name: np.array([one]) for name, one in found.items()})

    @property
    def best_size(self) -> float:
        """G*, which costs GRPO-type the least."""
        return float(1 + math.sqrt((self.constants.c3 / self.constants.c1).item()))

    def cost(self, size: float, name: str = "grpo") -> float:
        """N x MSE."""
        return float(self.aim(name, size).noise.item())

    def costs(
        self, name: str, sizes: Iterable[int], over: int, completions: float = 0
    ) -> dict[int, float]:
        """Steps that groups of some sizes take at N completions each, over one size's."""
        base = self.aim(name, over).cost(completions)
        return {
            size: (self.aim(name, size).cost(completions) / base).item() for size in sizes
        }

    @cached_property
    def place(self) -> tuple[float, float]:
        """V and b* of this population."""
        return aggregate_place(self.moments)

    @property
    def rho(self) -> float:
        """Rho of this population."""
        value, best = map(np.array, self.place)
        return float(norm_ratio(best, value)) if self.binary else math.nan

    @property
    def above(self) -> float:
        """The mean gain of the oracle on vanilla over that of vanilla on nothing."""
        return float(oracle_gain(self.moments).mean() / self.constants.vanilla.item())

    def aim(self, name: EstimatorEntry, size: int) -> Aim | None:
        """Where an estimator points in this population; None where no law says it."""
        if name in ("batch-mean", "best-constant"):
            within = getattr(self.constants, name.replace("-", "_"))
            return Aim.of_unbiased(self.constants, within, size)
        of_trl = name == DEFAULT.estimator or str(name).startswith("grpo-std(eps=0.0001")
        estimator = TRL if of_trl else find_estimator(name)
        if estimator.affine is not None:
            return self.affine_aim(*estimator.affine, size)
        if not self._is_known(estimator, size):
            return None
        (second_P, mean_PD) = self._means(estimator, size)
        gradient, gradient2 = self.design.gradient_PD.mean(0), self.constants.gradient2
        mean, norms2 = mean_PD.mean(0), (mean_PD**2).sum(-1)
        signal, between = mean @ mean, size * (norms2.mean() - mean @ mean)
        noise = between + size * (second_P - norms2).mean()
        cosine2 = (mean @ gradient) ** 2 / (signal * gradient2)
        figures = (noise, signal, gradient2, cosine2, between)
        return Aim(*map(np.atleast_1d, figures))

    def affine_aim(self, alpha: float, lam: float, size: int) -> Aim:
        """By E||g_hat||^2 of a group at the baseline alpha + lam m."""
        constants, moments = self.constants, self.moments
        fixed = moments.constant_baseline(alpha + lam * moments.value).mean()
        spread = moments.variance * moments.norm2 + moments.gradient2
        noise = size * constants.c1 + fixed + lam**2 * spread.mean() / max(size - 1, 1)
        between = size * constants.c1
        return Aim(noise, constants.gradient2, constants.gradient2, None, between)

    def in_epochs(self, aim: Aim, size: int) -> Aim:
        """Without the noise of prompts; GRPO-type's in the place of a biased loss's."""
        aim = aim if aim.cosine2 is None else self.affine_aim(0.0, 1.0, size)
        return aim._replace(noise=aim.noise - aim.between)

    def best_affine(self, size: int) -> tuple[float, float]:
        """The alpha and lambda of least cost, found by search; lambda is 0 at G = 1."""
        groups = float(size > 1)
        alpha, lam = optimize.minimize(
            lambda two: self.affine_aim(two[0], groups * two[1], size).noise.item(),
            [self.moments.value.mean(), 0.0],
        ).x
        return float(alpha), groups * float(lam)

    @property
    def prompts_rho(self) -> Floats:
        return norm_ratio(self.moments.best_baseline, self.moments.value)

    def zero_variance(self, size: int) -> float:
        """Share of zero-variance groups in this population, for rewards 0 and 1."""
        value = self.moments.value
        return float((value**size + (1 - value) ** size).mean())


def of_fixed_prompts(result, truth: Truth) -> Iterator[Answer]:
    """MSE, law, ratios to the oracle's and scale-free MSE of a run's prompts; their rho."""
    exact = {
        key: truth.decomposed(find_estimator(key.estimator), key.group_size)
        for key in result.points
    }
    numbers = result.mse.drop(columns=["probe", "estimator"]).astype(float)
    for row in numbers.assign(estimator=result.mse["estimator"]).itertuples():
        key = Key(row.estimator, int(row.group_size))
        one, base = exact[key], exact[key._replace(estimator="oracle")]
        at = f"{row.estimator} at {key.group_size}"
        truths = {
            "mse": one.mse,
            "law": one.mse,
            "ratio": one.mse / base.mse,
            "scale_free_mse": one.scale_free_mse,
            "scale_free_ratio": one.scale_free_mse / base.scale_free_mse,
        }
        for kind, number in truths.items():
            ends = (getattr(row, f"{kind}{end}", math.nan) for end in ("", "_low", "_high"))
            found = Estimate(*ends)
            same = kind.endswith("ratio") and row.estimator == "oracle"
            if not same:
                yield Answer(kind, at, found, float(number))
    rows = result.prompts[interval_heads("rho")].to_numpy(float)
    for row, true in zip(rows, truth.prompts_rho, strict=True):
        yield Answer("rho of a prompt", "", Estimate(*row), float(true))


def of_advice(advice: Advice, truth: Truth) -> Iterator[Answer]:
    """Everything that `advise` prints with an interval."""
    constants, used = truth.constants, advice.setting.group_size
    _, loss, *_ = advice.ladder[0]
    base = truth.aim(loss, used)
    for name in ("c1", "c2", "c3"):
        yield Answer(name, "", getattr(advice, name), getattr(constants, name).item())
    for name in ("vanilla", "batch_mean", "best_constant"):
        said = getattr(advice, name)
        yield Answer("constant baselines", name, said, getattr(constants, name).item())
    gradient2 = constants.gradient2.item()
    yield Answer("||g||^2", "", advice.gradient2, gradient2)
    scale = math.nan if base is None else (base.noise / base.signal).item()
    yield Answer("noise scale", "", advice.noise_scale, scale)
    yield Answer("G*", "", advice.best, truth.best_size)
    if advice.zero_variance and truth.binary:
        share = truth.zero_variance(used)
        yield Answer("zero-variance groups", f"at {used}", advice.zero_variance, share)
    yield from of_ladder(advice, truth)
    yield Answer("b* of the run", "", advice.regime.best_baseline, truth.place[1])
    yield Answer("rho of the run", "", advice.regime.rho, truth.rho)


def of_ladder(advice: Advice, truth: Truth) -> Iterator[Answer]:
    """Costs, progress and steps of each row; the table of progress has two of them."""
    at, gradient2 = advice.completions_per_step or 0, truth.constants.gradient2
    base = truth.aim(*advice.ladder[0][1:3])
    for row in advice.ladder:
        aim = truth.aim(row.estimator, row.group_size)
        if aim is None or base is None:
            continue
        alone, over = (
            truth.in_epochs(*pair).cost(at)
            for pair in ((aim, row.group_size), (base, advice.ladder[0].group_size))
        )
        numbers = [
            ("ladder", row.row, row.cost, aim.cost(at) / base.cost(at)),
            ("ladder in epochs", row.row, row.in_epochs, alone / over),
        ]
        for completions, progress, steps in row.progress:
            cost, name = aim.cost(completions), f"{row.row} at N = {completions}"
            numbers.append(("progress", name, progress, completions * gradient2 / cost))
            numbers.append(("steps", name, steps, cost / base.cost(completions)))
        for kind, name, found, true in numbers:
            if found != HOLDS:  # As those of the first row, over itself.
                yield Answer(kind, name, found, np.squeeze(true).item())


def of_side(regime: Regime, truth: Truth) -> Answer:
    """The side of the line: false where another is told, or on the line any."""
    on_line = abs(truth.above) < 1e-3
    right = "undecided" if on_line else ("above" if truth.above > 0 else "below")
    false = regime.side not in (right, "undecided")
    return Answer("regime's side", "", HOLDS, 0.0 if false else 1.0)


def _affine_over_oracle(result, whole: Truth, size: int = 8) -> float:
    """Noise of the baseline that a run fits, over the oracle's, for random prompts."""
    fit, constants = fit_at(result.table, size), whole.constants
    affine = whole.affine_aim(fit.alpha, fit.lam, size).noise
    return (affine / (size * constants.c1 + constants.c2)).item()


def _stated(claim, result, own: Truth, whole: Truth) -> float:
    """What a number of a statement should have been; NaN where it has no one truth."""
    about, moments = claim.about, own.moments
    if about is s.LAW:
        return 1.0
    if about is s.GROUP_MEANS:
        return _affine_over_oracle(result, whole)
    limits = {
        s.PROMPT_ONLY: moments.trace_best.sum(),
        s.VANILLA: moments.constant_baseline(0.0).sum(),
    }
    if about in limits:
        return float(moments.trace_oracle.sum() / limits[about])
    if about is s.BEST and claim.group_size is None:
        return whole.best_size
    if about not in BASES or claim.number.label != f"GRPO-type/{BASES[about]}":
        return math.nan
    if claim.group_size is None:
        return math.nan
    grpo, base = (
        own.decomposed(find_estimator(one), claim.group_size).mse
        for one in ("grpo", BASES[about])
    )
    return float(grpo / base)


def is_true(about, moments, size=None):
    """Whether a statement about one run is true by its prompts' moments; None if unknown.

    Asymptotic statements, and those about no group size, are those for G to infinity.
    """
    trace, zeta = moments.trace_oracle.sum(), moments.zeta.sum()
    vanilla, best = moments.constant_baseline(0.0).sum(), moments.trace_best.sum()
    grpo = trace + zeta / ((size or math.inf) - 1)
    correlated = not np.allclose(moments.best_baseline, moments.value, rtol=1e-6)
    if about in (s.ON_AVERAGE, s.ON_EACH, s.GROUP_MEANS):
        return None if correlated else True
    if about in (s.ORDER, s.TRAININGS):
        return None
    if about is s.PROMPT_ONLY:
        return bool(trace <= best * (1 + 1e-9))
    if about is s.VANILLA:
        return bool(trace < vanilla)
    if about in (s.LARGE_GROUPS, s.NEAR_AT_8, s.NEAR_FROM_32):
        limit = vanilla if about is s.LARGE_GROUPS else 1.05 * trace
        return bool(max(grpo, trace) < limit) if size else None
    return True


def of_claims(result, own: Truth, whole: Truth) -> Iterator[Answer]:
    """Numbers and verdicts: a statement that is true holds where it is not said to fail."""
    for claim in judge_run(result):
        size = claim.group_size
        at = claim.statement + ("" if size is None else f" at {size}")
        # Of the whole the worst size speaks, whose interval covers less by choice.
        if size is not None or claim.about is not s.LAW:
            stated = _stated(claim, result, own, whole)
            yield Answer("numbers of claims", at, claim.number.estimate, stated)
        if is_true(claim.about, own.moments, size):
            fails = claim.verdict in (claim.about.refuted, "outside")
            yield Answer("true statements", claim.statement, HOLDS, 0.0 if fails else 1.0)
