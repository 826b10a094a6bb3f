"""Alternatives: what other estimators need for the error of the user's own training.

All are judged over random prompts, by the scale-free MSE at the budget, so that a factor,
which a learning rate would absorb, does not count. The figure is a number of completions
over the budget (`mse_lab.mse.own_loss`). Where no law gives the error of the user's own
loss, it is GRPO-type's at the same group size.

- A baseline that is one number a prompt, or one for all, has its best G at 1, by a law.
- Estimators of the group's rewards alone are judged by their exact laws, rewards being 0
  and 1, at the size of least cost that a trainer would be set to.
- Other unbiased estimators are judged by the run's replicates.

Estimators whose mean no law gives are not judged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.answers.trainer_settings import (
    TRAINERS_DEFAULT,
    base_name,
    name_own,
    reachable,
)
from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.own_loss import CONSTANT, Aim, find_aims, find_direction, without_batch
from mse_lab.mse.regret import SIZES, choose_size
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.probe.schema import EstimatorEntry

# Prompts that were measured, by a run with replicates or by few samples.
Evidence = MeasuredRun | SampledRun

# No training knows the best constant of a prompt; it bounds what a baseline could save.
BOUND = "best-constant"

# Estimators of a probe that are not judged: others stand for them.
_COMPARED = (*CONSTANT, "oracle", "centred")

# Group sizes at which laws are evaluated.
LAW_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)


class Alternative(NamedTuple):
    """Another estimator at its best group size.

    `cost` is the number of completions that gives the scale-free MSE of the user's own
    training at the budget, over the budget. It is infinite where no number will do, and
    unknown where ||g||^2 is not significantly positive and the estimator not `unbiased`.
    """

    estimator: str
    group_size: int
    cost: Estimate
    unbiased: bool


class Seconds(NamedTuple):
    """What training takes."""

    completion: float  # Seconds a completion.
    prompt: float = 0.0  # Seconds once a prompt.

    def each(self, group_size: int) -> float:
        """Seconds a completion, its share of the prompt's included."""
        return self.completion + self.prompt / group_size


class Price(NamedTuple):
    """A row of the price list: what an estimator at a size costs over the user's own."""

    whose: str  # `yours`, `same loss`, `same trainer` or `any`.
    estimator: str
    group_size: int
    cost: Estimate  # Completions for the same error.
    time: Estimate | None = None  # The same in seconds, where these are given.


@dataclass(frozen=True)
class Yardstick:
    """The user's own training, or GRPO-type in groups of its size, at one budget."""

    run: Evidence
    budget: float

    @cached_property
    def own_aim(self) -> Aim | None:
        """Where the user's own loss points; None where that is not known."""
        setting = self.run.setting
        size, entry = setting.group_size, setting.estimator
        if entry is None or not (self._knows_gradient or self._is_unbiased(entry)):
            return None
        population, binary = self.run.population, self.run.binary
        return find_aims(population, entry, [size], binary=binary).get(size)

    @cached_property
    def _knows_gradient(self) -> bool:
        return self.run.constants["gradient2"].low > 0

    @staticmethod
    def _is_unbiased(entry: EstimatorEntry) -> bool:
        kept = without_batch(entry)
        # The mean-centred weights are GRPO-type's, up to a factor.
        return kept in CONSTANT or base_name(kept) in ("grpo", "centred")

    @cached_property
    def _base(self) -> Aim:
        size = max(self.run.setting.group_size, 2)
        constants = self.run.population.samples
        return self.own_aim or Aim.of_unbiased(constants, "grpo", size)

    def _costs(self, aims: Mapping[int, Aim]) -> dict[int, Floats]:
        return {size: aim.cost(self._base, self.budget) for size, aim in aims.items()}

    def _estimate(self, cost: Floats) -> Estimate:
        """Estimate a cost by its reciprocal, which is zero where no number will do."""
        efficiency = np.where(cost < LARGEST, divide(1.0, cost, LARGEST), 0.0)
        population, level = self.run.population, self.run.level
        share = population.estimate_positive(lambda _, one: one, level, efficiency)
        ends = (share.value, share.high, share.low)
        return Estimate(*(1 / end if end > 0 else math.inf for end in ends))

    def judge_constant(self, name: str) -> Alternative:
        """Judge a baseline that is constant on each prompt, at G = 1."""
        aim = Aim.of_unbiased(self.run.population.samples, name, 1)
        return Alternative(name, 1, self._estimate(self._costs({1: aim})[1]), unbiased=True)

    def judge(self, name: str, entry: EstimatorEntry) -> Alternative | None:
        """Judge an estimator at the size of least cost; None where nothing gives it."""
        estimator = find_estimator(entry)
        aims = self._aims(entry)
        if not aims:
            return None
        if not (self._knows_gradient or self._is_unbiased(entry) or estimator.unbiased):
            return Alternative(name, self.run.setting.group_size, UNKNOWN, unbiased=False)
        costs = self._costs(aims)
        values = {size: float(cost[0]) for size, cost in costs.items()}
        usual = {*SIZES, self.run.setting.group_size}
        size = choose_size(values, settable=usual)
        return Alternative(name, size, self._estimate(costs[size]), estimator.unbiased)

    def _aims(self, entry: EstimatorEntry) -> dict[int, Aim]:
        population, binary = self.run.population, self.run.binary
        sizes = sorted({*LAW_SIZES, self.run.setting.group_size} - {1})
        aims = find_aims(population, entry, sizes, binary=binary)
        if not aims and isinstance(self.run, MeasuredRun):
            aims = _measured_aims(find_estimator(entry), self.run)
        return aims

    def price_of_own(self, size: int) -> Estimate:
        """Price the user's own loss, or GRPO-type, in groups of a size."""
        population, binary = self.run.population, self.run.binary
        entry = self.run.setting.estimator if self.own_aim else "grpo"
        assert entry is not None
        aims = find_aims(population, entry, [size], binary=binary)
        return self._estimate(self._costs(aims)[size]) if aims else UNKNOWN


def _measured_aims(estimator: Estimator, run: MeasuredRun) -> dict[int, Aim]:
    """Where an unbiased estimator points, by the run's groups; empty without replicates."""
    sizes = [size for size in run.sizes if size >= estimator.smallest_group]
    if not estimator.unbiased or run.law_only:
        return {}
    errors = measure_errors(run.pools, [estimator], sizes)
    slope_P, aims = np.ones(run.pools.prompts), {}
    for size in sizes:
        noise_P = errors[Key(estimator.name, size)].mean(-1)
        direction = find_direction(run.population, slope_P, noise_P)
        # Its mean is g itself.
        signal = run.population.samples.gradient2
        aims[size] = Aim(size * direction.noise, signal, np.ones_like(signal))
    return aims


def _others(run: Evidence) -> dict[str, EstimatorEntry]:
    """Name the estimators to judge: the user's, the trainers', and the probe's."""
    own = run.setting.estimator
    named = own is not None and base_name(own) == base_name(TRAINERS_DEFAULT)
    entries: list[EstimatorEntry] = ["grpo", "best-constant-loo", *run.entries]
    kept = "grpo" if own is None else without_batch(own)
    listed = kept not in CONSTANT and base_name(kept) not in ("grpo", "centred")
    entries += [own] if own is not None and listed else []
    entries += [] if named else [TRAINERS_DEFAULT]
    found = {find_estimator(entry).name: entry for entry in entries}
    return {name: entry for name, entry in found.items() if name not in _COMPARED}


def find_alternatives(yardstick: Yardstick) -> tuple[Alternative, ...]:
    """Judge other estimators over random prompts, the cheapest first."""
    run = yardstick.run
    # Few completions of a prompt do not tell its best constant: intervals held in 50%.
    constant = [name for name in CONSTANT if name != BOUND or run.stopped is None]
    alternatives = [yardstick.judge_constant(name) for name in constant]
    for name, entry in _others(run).items():
        estimator = find_estimator(entry)
        enough = estimator.smallest_batch <= run.population.pools.prompts
        fits = run.binary or not estimator.binary
        if enough and fits and not estimator.knows_value:
            alternative = yardstick.judge(name, entry)
            alternatives += [alternative] if alternative else []
    alternatives.sort(
        key=lambda alternative: np.nan_to_num(alternative.cost.value, nan=math.inf)
    )
    return tuple(alternatives)


def list_prices(
    yardstick: Yardstick,
    alternatives: Sequence[Alternative],
    sizes: Sequence[int],
    seconds: Seconds | None = None,
) -> tuple[Price, ...]:
    """List what the user could set, over what is set: 1.

    Rows: the user's own; the same loss at the given sizes; the cheapest that the same
    trainer can be set to; the cheapest that any training can use.
    """
    setting = yardstick.run.setting
    present = setting.group_size
    own = name_own(setting.estimator) if yardstick.own_aim else "grpo"
    usable = [one for one in alternatives if one.estimator != BOUND]
    same = [one for one in usable if reachable(setting.trainer, one.estimator)]
    rows = [Price("yours", own, present, Estimate(1.0, 1.0, 1.0))]
    rows += [
        Price("same loss", own, size, yardstick.price_of_own(size))
        for size in sizes
        if size != present
    ]
    for whose, found in (("same trainer", same), ("any", usable)):
        best = found[0] if found else None
        if best and (best.estimator, best.group_size) not in {row[1:3] for row in rows}:
            rows.append(Price(whose, best.estimator, best.group_size, best.cost))
    if seconds is None:
        return tuple(rows)
    factors = [seconds.each(row.group_size) / seconds.each(present) for row in rows]
    return tuple(
        row._replace(time=Estimate(*(factor * end for end in row.cost)))
        for factor, row in zip(factors, rows, strict=True)
    )
