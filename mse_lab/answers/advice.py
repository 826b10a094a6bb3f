"""Advice: which group size to train with, from one run's pools.

For B = N/G prompts drawn at random and G completions of each, by `mse_lab.mse.budget`,

    GRPO-type            N MSE = c1 G + c2 + c3 / (G-1), least at G* = 1 + sqrt(c3/c1)
    constant baseline b  N MSE = c1 G + E[(Z-b)^2 ||W||^2 - ||g||^2], least at G = 1

so GRPO-type beats vanilla from G = 1 + c3 / (c_vanilla - c2) on, or never. Completions are
in proportion to N MSE: what has twice as much of it needs twice as many for the same MSE.
MSE / ||g||^2 is the relative error of a gradient; N times it, the completions at which it
is one, is the gradient noise scale of arXiv 1812.06162. Here ||g||^2 is that of the
population's mean gradient, not of the run's fixed prompts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from mse_lab.answers.alternatives import (
    Alternative,
    Evidence,
    Price,
    Seconds,
    Yardstick,
    find_alternatives,
    list_prices,
)
from mse_lab.answers.judged import UserSetting
from mse_lab.arrays import Floats, divide
from mse_lab.errors import InputError
from mse_lab.mse.budget import Constants, Population, mse_times_budget
from mse_lab.mse.intervals import Estimate, falling
from mse_lab.mse.regime import Regime
from mse_lab.mse.regret import SIZES
from mse_lab.mse.stopping import Stopped
from mse_lab.mse.verdict import BUDGET, Needed, Verdict
from mse_lab.mse.zero_variance import mean_share, zero_variance_shares
from mse_lab.probe.streams import stream
from mse_lab.results.files import as_data

# Where the curves are evaluated; every eighth is one of SIZES.
CURVE_SIZES = tuple(2 ** (step / 8) for step in range(8, 65))

# The fewest prompts whose gradients can be compared, and in how many rewards must differ.
LEAST_PROMPTS, LEAST_SIGNALS = 3, 2

RULED = ("verdict", "set_to", "saves", "at_most", "at_least", "own_loss")
CURVES = ("grpo", "vanilla", "oracle", "best-constant")


class GroupSize(NamedTuple):
    """One group size: its MSE at the budget, and what it costs.

    `cost` is the number of completions for the same MSE, relative to the recommended size;
    `zero_variance` is the share of groups whose rewards are all equal, None where the pools
    have fewer completions than the group.
    """

    group_size: int
    mse: Estimate
    cost: Estimate
    zero_variance: Estimate | None


@dataclass(frozen=True)
class Advice:
    """What a run says about group sizes, every number with its interval over prompts."""

    name: str  # The run's.
    prompts: int
    level: float
    budget: int
    held: bool  # Whether its built-in checks hold.
    warnings: tuple[str, ...]  # What its reader should know, a sentence each.
    law_only: bool  # Whether no replicate confirms the laws that this rests on.
    # The constants above.
    c1: Estimate
    c2: Estimate
    c3: Estimate
    vanilla: Estimate
    # As vanilla, for the baselines E[Z] and b*.
    batch_mean: Estimate
    best_constant: Estimate
    gradient2: Estimate  # ||E g(X)||^2 of the population.
    best: Estimate  # G*; infinite above where c1 is not significantly positive.
    recommended: int  # By the rule of `regret.choose_size`.
    # By how much more than the best size it costs at most, at the run's level of
    # confidence; infinite where no bound is known.
    regret: float
    # Least and largest of the sizes that cost at most `near_regret` more.
    near_best: tuple[int, int]
    near_regret: float  # 5%, or `regret` in whole percents where that is more.
    rows: tuple[GroupSize, ...]  # The sizes that were asked for, and the recommended one.
    # Other estimators over random prompts, the cheapest first.
    alternatives: tuple[Alternative, ...]
    # Smallest whole G at which GRPO-type has the smaller error; infinite for never.
    beats_vanilla_from: Estimate
    regime: Regime  # On which side of vanilla the run and its prompts are.
    # MSE / ||g||^2 of GRPO-type at the budget and the recommended G.
    relative_error: Estimate
    noise_scale: Estimate  # The budget at which that is one.
    setting: UserSetting  # What the verdict is about.
    verdict: Verdict  # Whether to keep the group size in use.
    set_to: int  # The size to type: the one in use unless the verdict is `change`.
    saves: Estimate | None  # Share of completions that it saves; None where not told.
    at_most: float  # How much more than the best size the one in use costs, at most,
    at_least: float  # and at least.
    own_loss: bool  # Whether these are costs of the user's loss, else of GRPO-type.
    needed: Needed | None  # More would tell, where it is `cannot tell`.
    prices: tuple[Price, ...]  # What the user could set, over what is set.
    # Estimator -> MSE at the budget for each of CURVE_SIZES; to be drawn, and not kept.
    curves: Mapping[str, tuple[Estimate, ...]] = field(default_factory=dict)
    # How many were drawn; None for a finished run, like the next three fields.
    completions: int | None = None
    differentiated: int | None = None  # How many of them were differentiated.
    stopped: Stopped | None = None  # Why no more were drawn.
    # How many prompts there are in all, if they are a set; None for a random sample.
    population: int | None = None
    # Mean over the prompts; None in files of an earlier version.
    mean_reward: float | None = None

    @property
    def num_generations(self) -> int:
        """The group size to type, `set_to`, by TRL's name."""
        return self.set_to

    @property
    def unbounded(self) -> bool:
        """Whether G* has no upper bound on this evidence."""
        return math.isinf(self.best.high)

    @property
    def best_group_size(self) -> float:
        """G*."""
        return self.best.value

    @property
    def low(self) -> float:
        """The lower end of the interval of G*."""
        return self.best.low

    @property
    def high(self) -> float:
        """The upper end of the interval of G*; infinite where there is none."""
        return self.best.high

    def row(self, group_size: int) -> GroupSize:
        """Give the row of a size."""
        return next(row for row in self.rows if row.group_size == group_size)

    def as_dict(self) -> dict[str, Any]:
        """Give the content of `advice.json`: five digits, as value, low, high."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {
            name: as_data(value)
            for name, value in values.items()
            if name != "curves" and (value is not None or name in ("saves", "needed"))
        }


def beats_vanilla_from(population: Population, level: float) -> Estimate:
    """Estimate the least whole G above 1 + c3 / (c_vanilla - c2), or infinity."""

    def gain(constants: Constants) -> Floats:
        return divide(constants.vanilla - constants.c2, constants.c3)

    sizes = falling(population.estimate(gain, level), -1)
    return Estimate(*(end if math.isinf(end) else math.floor(1 + end) + 1 for end in sizes))


def _cost(run: Evidence, size: int, over: int) -> Estimate:

    def cost(constants: Constants) -> Floats:
        mse, base = (mse_times_budget("grpo", constants, one) for one in (size, over))
        return divide(mse, base)

    return run.population.estimate_positive(cost, run.level)


def noise_scale(run: Evidence, size: int) -> Estimate:
    """N MSE / ||g||^2; without an upper end where ||g||^2 is not measurably positive."""

    def inverse(constants: Constants) -> Floats:
        return divide(constants.gradient2, mse_times_budget("grpo", constants, size))

    return falling(run.population.estimate(inverse, run.level), -1)


def _mse(run: Evidence, name: str, size: float, budget: float) -> Estimate:

    def figure(constants: Constants) -> Floats:
        return mse_times_budget(name, constants, size) / budget

    return run.population.estimate_positive(figure, run.level)


def _zero_variance(run: Evidence, size: int) -> Estimate | None:
    if size > min(map(len, run.rewards)):
        return None
    shares_P = zero_variance_shares(run.rewards, size)
    name = f"zero variance at {size}"
    return mean_share(shares_P, run.level, run.resamples, stream(run.seed, "advice", name))


def _refuse(run: Evidence) -> None:
    if not run.sizes:
        raise InputError("group_sizes = [1]: advice needs one of two or more")
    pools = run.population.pools
    prompts, varied = pools.prompts, int((pools.reward_variance_P > 0).sum())
    if prompts < LEAST_PROMPTS:
        what = f"{prompts} prompts: advice needs three or more; raise prompts.limit"
        raise InputError(what)
    if not varied or math.isnan(run.best_group_size.value):
        raise InputError("the rewards of a prompt are all equal: nothing to advise on")
    if varied < LEAST_SIGNALS:
        raise InputError(
            f"rewards differ within {varied} of {prompts} prompts only: nothing to advise "
            "on; measure more prompts, or some that the model gets right now and then"
        )


def advise(
    run: Evidence,
    sizes: Sequence[int] = SIZES,
    budget: int = BUDGET,
    seconds: Seconds | None = None,
) -> Advice:
    """Work out the advice from three prompts or more, taken as a random sample.

    The group sizes, two or more each, are priced; errors are stated for `budget`
    completions, and prices also in time where the `seconds` of a training are given.
    """
    _refuse(run)
    choice, recommended = run.choice, run.choice.size
    scale = noise_scale(run, recommended)
    yardstick, ruling = Yardstick(run, budget), run.ruling
    alternatives = find_alternatives(yardstick)
    asked = {ruling.best} if sizes == SIZES else {ruling.best, *sizes}
    prices = list_prices(yardstick, alternatives, sorted(asked), seconds)
    rows = (
        GroupSize(
            size,
            _mse(run, "grpo", size, budget),
            _cost(run, size, recommended),
            _zero_variance(run, size),
        )
        for size in sorted({*sizes, recommended})
    )
    return Advice(
        name=run.name,
        prompts=run.population.pools.prompts,
        level=run.level,
        budget=budget,
        held=run.held,
        warnings=tuple(run.warnings),
        law_only=run.law_only,
        **dict[str, Any](run.constants),
        best=run.best_group_size,
        recommended=recommended,
        regret=choice.regret,
        near_best=choice.near_best,
        near_regret=choice.near_regret,
        rows=tuple(rows),
        alternatives=alternatives,
        setting=UserSetting.of(run.setting),
        **{key: getattr(ruling, key) for key in RULED},
        needed=run.needed,
        prices=prices,
        beats_vanilla_from=beats_vanilla_from(run.population, run.level),
        regime=run.regime,
        relative_error=Estimate(*(end / budget for end in scale)),
        noise_scale=scale,
        curves={
            name: tuple(_mse(run, name, size, budget) for size in CURVE_SIZES)
            for name in CURVES
        },
        completions=run.completions,
        differentiated=run.differentiated,
        stopped=run.stopped,
        population=int(size) if (size := run.population.size) < math.inf else None,
        mean_reward=sum(rewards.mean() for rewards in run.rewards) / len(run.rewards),
    )
