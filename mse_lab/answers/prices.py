"""Prices: what a training needs with other settings, over what it needs with its own.

The unit is steps at the user's N completions each, or completions for the same error where
N is unknown: the cost of `mse_lab.mse.loss`, in which a factor of an estimator, which a
learning rate would absorb, does not count. Where no law gives the cost of the user's own
loss, GRPO-type stands for it, and the rows say so.

- A baseline that is one number a prompt, or one for all, has its best G at 1, by a law.
- Estimators of the group's rewards alone are judged by their exact laws, rewards being 0
  and 1, at the size of least cost that a trainer would be set to.

Estimators without a law are not judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.answers.advice_evidence import Evidence
from mse_lab.answers.trainer_settings import (
    TRAINERS_DEFAULT,
    base_name,
    name_estimator,
    reachable,
)
from mse_lab.config.schema import EstimatorEntry
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.loss import (
    CONSTANT,
    GRPO_TYPE,
    Aim,
    find_aims,
    without_batch,
)
from mse_lab.mse.progress import steps_ratio
from mse_lab.mse.rule import cheapest

# Estimators of a probe that are not judged: others stand for them, or no training can
# know what they do.
_COMPARED = (*CONSTANT, "oracle", "centred")

# The user's own loss and size; other sizes of it; the cheapest that the same trainer can be
# set to; the cheapest that any training can use.
PriceRow = Literal["present", "same loss", "same trainer", "any"]


class Price(NamedTuple):
    """A row of the price list: what an estimator at a size costs over the present one."""

    row: PriceRow
    estimator: str
    group_size: int
    cost: Estimate  # 1 in the first row.


@dataclass(frozen=True)
class PriceList:
    """Prices over the user's training, or over GRPO-type in groups of its size."""

    evidence: Evidence

    @cached_property
    def of_loss(self) -> bool:
        """Whether the user's own loss is known at its size, else GRPO-type is priced."""
        question = self.evidence.question
        entry = question.estimator
        return entry is not None and bool(self._find_aims(entry, [question.present]))

    @property
    def _entry(self) -> EstimatorEntry:
        """The loss that is priced."""
        entry = self.evidence.question.estimator
        return entry if self.of_loss and entry is not None else "grpo"

    def _find_aims(self, entry: EstimatorEntry, sizes: Sequence[int]) -> dict[int, Aim]:
        """Where an estimator points, by a law; {} where there is none.

        One that is biased has a direction only where ||g||^2 is significantly positive.
        """
        table, kept = self.evidence.table, without_batch(entry)
        unbiased = kept in CONSTANT or base_name(kept) in GRPO_TYPE
        unbiased = unbiased or find_estimator(entry).unbiased
        known = unbiased or table.knows_gradient(self.evidence.level)
        return find_aims(table, entry, sizes) if known else {}

    @cached_property
    def base(self) -> Aim:
        """Where the present training points."""
        size = self.evidence.question.present
        size = size if self.of_loss else max(size, 2)
        return find_aims(self.evidence.table, self._entry, [size])[size]

    def price(self, aim: Aim) -> Estimate:
        """Price where an estimator points."""
        table, question = self.evidence.table, self.evidence.question
        return steps_ratio(table, aim, self.base, question.completions, question.level)

    def price_of(self, entry: EstimatorEntry, size: int) -> Estimate:
        """Price an estimator in groups of a size; unknown without a law."""
        aims = find_aims(self.evidence.table, entry, [size])
        return self.price(aims[size]) if aims else UNKNOWN

    def best_of(self, entry: EstimatorEntry) -> tuple[int, Estimate] | None:
        """Price an estimator at the size of least cost; None where nothing gives it."""
        question, constant = self.evidence.question, without_batch(entry) in CONSTANT
        aims = self._find_aims(entry, [1] if constant else question.compared)
        if not aims:
            return None
        costs = {
            size: float(aim.cost(question.completions)[0]) for size, aim in aims.items()
        }
        size = cheapest(costs, question.settable)
        return size, self.price(aims[size])

    def _others(self) -> dict[str, EstimatorEntry]:
        """The estimators to price beside the present one, by name."""
        others: dict[str, EstimatorEntry] = {
            "vanilla": "vanilla",
            "batch-mean": "batch-mean",
        }
        for entry in ("grpo", TRAINERS_DEFAULT, *self.evidence.entries):
            estimator = find_estimator(entry)
            if base_name(entry) not in _COMPARED and self._applies(estimator):
                others[estimator.name] = entry
        return others

    def _applies(self, estimator: Estimator) -> bool:
        table = self.evidence.table
        fits = table.binary or not estimator.binary
        return (
            fits and estimator.smallest_batch <= table.prompts and not estimator.knows_value
        )

    @cached_property
    def alternatives(self) -> list[tuple[str, int, Estimate]]:
        """Other estimators at their best sizes, the cheapest first."""
        priced = [(name, self.best_of(entry)) for name, entry in self._others().items()]
        rows = [(name, *best) for name, best in priced if best is not None]
        return sorted(rows, key=lambda row: np.nan_to_num(row[2].value, nan=np.inf))

    def rows(self) -> Iterator[Price]:
        """List what the user could set, over what is set: 1."""
        ruling, question = self.evidence.ruling, self.evidence.question
        name = name_estimator(self._entry)
        yield Price("present", name, question.present, Estimate(1.0, 1.0, 1.0))
        seen = {(name, question.present)}
        if ruling.best != question.present:
            cost = self.price_of(self._entry, ruling.best)
            yield Price("same loss", name, ruling.best, cost)
            seen.add((name, ruling.best))
        trainer = self.evidence.setting.trainer
        same = [one for one in self.alternatives if reachable(trainer, one[0])]
        kinds: dict[PriceRow, list[tuple[str, int, Estimate]]]
        kinds = {"same trainer": same, "any": self.alternatives}
        for row, cheapest_first in kinds.items():
            if cheapest_first and cheapest_first[0][:2] not in seen:
                seen.add(cheapest_first[0][:2])
                yield Price(row, *cheapest_first[0])
