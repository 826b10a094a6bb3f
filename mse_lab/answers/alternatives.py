"""Alternatives: what other estimators need for the error of the recommended one.

All are judged over random prompts, by the scale-free MSE at the budget, so that a factor,
which a learning rate would absorb, does not count. The figure is a number of completions
over the budget; for an unbiased estimator it holds at any budget.

- A baseline that is one number a prompt, or one for all, has its best G at 1, by a law.
- Estimators of the group's rewards alone are judged by their exact laws, rewards being 0
  and 1, at their own best G. A normalisation by the tokens of a batch is left out: it is
  one factor a batch, which hardly varies where the batch is large.
- Other unbiased estimators are judged by the run's replicates, at the best of its sizes.
- The others, whose mean no law gives, are compared on single prompts: the median ratio.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from mse_lab.answers.evidence import Evidence
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.ranking import nearest_size
from mse_lab.arrays import Floats, divide
from mse_lab.estimators import ESTIMATORS, Estimator, find_estimator
from mse_lab.mse.budget import Constants, mse_times_budget
from mse_lab.mse.directions import Direction, efficiency, find_direction
from mse_lab.mse.intervals import UNKNOWN, Estimate, falling
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.probe.schema import EstimatorEntry

# What TRL and verl compute by default: the group's spread divides, and the mean is over the
# tokens of the batch.
TRAINERS_DEFAULT = {"name": "grpo-std", "eps": 1e-4, "length": "token-batch"}

# Baselines that are one number for each prompt, or one for all prompts.
CONSTANT = ("vanilla", "batch-mean", "best-constant")

# No training knows the best constant of a prompt; it bounds what a baseline could save.
BOUND = "best-constant"

# Estimators of a probe that are not judged: the others are compared with them.
_COMPARED = ("vanilla", "grpo", "oracle", "centred", "best-constant")

# Group sizes at which laws are evaluated.
LAW_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)


class Alternative(NamedTuple):
    """Another estimator at its best group size.

    `cost` is the number of completions that gives the scale-free MSE of the recommended
    estimator at the budget, over the budget. It is infinite where no number will do, and
    unknown where ||g||^2 is not significantly positive and the estimator not `unbiased`.
    """

    estimator: str
    group_size: int
    cost: Estimate
    unbiased: bool = False


class Single(NamedTuple):
    """An estimator that only single prompts judge.

    `ratio` is the median over `prompts` of its scale-free MSE over that of `grpo`.
    """

    estimator: str
    group_size: int
    ratio: float
    prompts: int


@dataclass(frozen=True)
class Yardstick:
    """The recommended estimator: GRPO-type at one group size, at one budget."""

    run: Evidence
    group_size: int
    budget: float

    def cost(self, constants: Constants) -> Floats:
        """N x MSE of the recommended estimator."""
        return mse_times_budget("grpo", constants, self.group_size)

    def judge_constant(self, name: str) -> Alternative:
        """Judge a baseline that is constant on each prompt, at G = 1."""

        def share(constants: Constants) -> Floats:
            return divide(mse_times_budget(name, constants, 1), self.cost(constants))

        cost = self.run.population.estimate_positive(share, self.run.level)
        return Alternative(name, 1, cost, unbiased=True)

    def _efficiency(
        self, estimator: Estimator, size: int, constants: Constants, direction: Direction
    ) -> Floats:
        """Efficiency at a group size; ||g||^2 cancels where the estimator is unbiased."""
        cost = self.cost(constants)
        if estimator.unbiased:
            return divide(cost, size * direction.noise)
        return efficiency(constants, direction, size, cost, self.budget)

    def judge_directions(
        self, estimator: Estimator, directions: Mapping[int, Direction]
    ) -> Alternative:
        """Judge an estimator by where it points at some group sizes."""
        population, level = self.run.population, self.run.level
        if not estimator.unbiased and self.run.constants["gradient2"].low <= 0:
            return Alternative(estimator.name, self.group_size, UNKNOWN)
        samples = population.samples
        value = {
            size: float(self._efficiency(estimator, size, samples, direction)[0])
            for size, direction in directions.items()
        }
        best = max(value, key=value.__getitem__)
        figure = partial(self._efficiency, estimator, best)
        share = population.estimate_positive(figure, level, directions[best])
        return Alternative(estimator.name, best, falling(share, -1), estimator.unbiased)


def _law_directions(
    estimator: Estimator, run: Evidence, sizes: Sequence[int] = LAW_SIZES
) -> dict[int, Direction]:
    """Where an estimator of rewards 0 and 1 points, by its laws; empty without one."""
    directions = {}
    for size in sizes:
        law = run.find_law(estimator, size)
        if law is not None and size >= estimator.smallest_group:
            mean = law(run.moments)
            noise_P = mean.second - mean.slope**2 * run.moments.gradient2
            directions[size] = find_direction(run.population, mean.slope, noise_P)
    return directions


def _measured_directions(estimator: Estimator, run: MeasuredRun) -> dict[int, Direction]:
    """Where an unbiased estimator points, by the run's groups; empty without replicates."""
    sizes = [size for size in run.sizes if size >= estimator.smallest_group]
    if not estimator.unbiased or run.law_only:
        return {}
    errors = measure_errors(run.pools, [estimator], sizes)
    slope_P = np.ones(run.pools.prompts)
    noises = {size: errors[Key(estimator.name, size)].mean(-1) for size in sizes}
    return {
        size: find_direction(run.population, slope_P, noise_P)
        for size, noise_P in noises.items()
    }


def _without_batch_tokens(entry: EstimatorEntry) -> EstimatorEntry:
    """Leave out a normalisation by the tokens of a batch: nearly one factor for all."""
    if isinstance(entry, str) or entry.get("length") != "token-batch":
        return entry
    return {key: value for key, value in entry.items() if key != "length"}


def _others(run: Evidence) -> dict[str, EstimatorEntry]:
    """Name the estimators to judge: the trainers' default, one more, and the probe's."""
    entries: list[EstimatorEntry] = [TRAINERS_DEFAULT, "best-constant-loo", *run.entries]
    named = {find_estimator(entry).name: entry for entry in entries}
    return {name: entry for name, entry in named.items() if name not in _COMPARED}


def _applies(estimator: Estimator, run: Evidence) -> bool:
    """Whether training could use it, and the run has what it needs."""
    enough = estimator.smallest_batch <= run.population.pools.prompts
    fits = run.binary or not estimator.binary
    return enough and fits and not estimator.knows_value


def judge_on_prompts(estimator: Estimator, run: MeasuredRun) -> list[Single]:
    """Compare an estimator with GRPO-type on each prompt; empty where no size will do.

    The median has no interval: the noise of single prompts moves it, and without a law
    nothing says how far.
    """
    sizes = [
        size for size in (nearest_size(run), *run.sizes) if size >= estimator.smallest_group
    ]
    if run.law_only or not sizes:
        return []
    size, both = sizes[0], [estimator, ESTIMATORS["grpo"]]
    errors = measure_errors(run.pools, both, [size])
    own_P, grpo_P = (
        run.curves.of_prompts(one, size, errors[Key(one.name, size)]).scale_free_mse
        for one in both
    )
    known_P = np.isfinite(own_P) & np.isfinite(grpo_P) & (grpo_P > 0)
    ratios = own_P[known_P] / grpo_P[known_P]
    median = float(np.median(ratios)) if ratios.size else math.nan
    return [Single(estimator.name, size, median, len(ratios))]


def price_default(run: Evidence, size: int, budget: float) -> Estimate:
    """Price the trainers' default estimator, relative to GRPO-type at the same G.

    The price is in completions for its scale-free MSE at the budget; unknown without a law.
    """
    estimator = find_estimator(_without_batch_tokens(TRAINERS_DEFAULT))
    if not _applies(estimator, run):
        return UNKNOWN
    directions = _law_directions(estimator, run, [size])
    if not directions:
        return UNKNOWN
    return Yardstick(run, size, budget).judge_directions(estimator, directions).cost


def find_alternatives(
    yardstick: Yardstick,
) -> tuple[tuple[Alternative, ...], tuple[Single, ...]]:
    """Judge other estimators: over random prompts, the cheapest first; then the rest."""
    run = yardstick.run
    # Few completions of a prompt do not tell its best constant: intervals held in 50%.
    constant = [name for name in CONSTANT if name != BOUND or run.stopped is None]
    alternatives = [yardstick.judge_constant(name) for name in constant]
    singles: list[Single] = []
    for name, entry in _others(run).items():
        estimator = find_estimator(_without_batch_tokens(entry))
        if not _applies(estimator, run):
            continue
        directions = _law_directions(estimator, run)
        if not directions and isinstance(run, MeasuredRun):
            directions = _measured_directions(estimator, run)
        if directions:
            alternative = yardstick.judge_directions(estimator, directions)
            unbiased = find_estimator(entry).unbiased
            alternatives.append(alternative._replace(estimator=name, unbiased=unbiased))
        elif isinstance(run, MeasuredRun):
            singles += judge_on_prompts(find_estimator(entry), run)
    alternatives.sort(
        key=lambda alternative: np.nan_to_num(alternative.cost.value, nan=math.inf)
    )
    return tuple(alternatives), tuple(singles)
