"""The ladder: what a training could be set to, from the present one to the best of all.

    yours    the present loss and group size
    size     the same loss at its best size
    trainer  the best baseline alpha + lambda m that the trainer takes, m the mean reward of
             a group's others, at its best size
    best     the best of these at any size: of groups of one, whose baseline is alpha, too

Each costs steps at the user's N completions, or completions for the same error where N is
unknown, over those of the first: the cost of `mse_lab.mse.loss`, in which a factor of an
estimator, which a learning rate would absorb, does not count. Where no law gives the cost
of the user's own loss, GRPO-type stands for it. Baselines are fitted, and priced on prompts
left out of the fit (`mse_lab.mse.baseline`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.answers.advice_evidence import Evidence
from mse_lab.arrays import Floats
from mse_lab.config.schema import EstimatorEntry
from mse_lab.config.training import Setting
from mse_lab.estimators import find_estimator
from mse_lab.mse.baseline import Baseline, fit_baseline
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import Aim, find_aims, is_unbiased, progress, steps_ratio
from mse_lab.mse.rule import SIZES

# Completions a step at which progress is said where N is unknown, and beside N.
STEPS = (64, 256, 1024, 4096)

_ONE = Estimate(1.0, 1.0, 1.0)

RowName = Literal["yours", "size", "trainer", "best"]


class Made(NamedTuple):
    """What a step of N completions makes of the progress possible."""

    completions_per_step: int
    progress: Estimate  # Its share.
    steps: Estimate  # Steps over those with yours.


class LadderRow(NamedTuple):
    """A row of the ladder."""

    row: RowName
    estimator: EstimatorEntry  # As in a probe.
    group_size: int
    alpha: float | None  # Of a baseline alpha + lambda m; None for another loss.
    lam: float | None
    cost: Estimate  # Over yours, 1 in the first row.
    # The same where whole epochs cancel c1; GRPO-type's in the place of a biased loss's.
    in_epochs: Estimate
    progress: tuple[Made, ...]  # At N, if known, and at `STEPS`.
    typed: str | None  # What to set; None with `why`.
    why: str | None
    needs: str | None = None  # Settings that it takes besides.


class Typed(NamedTuple):
    """What is typed, or why nothing is."""

    typed: str | None
    why: str | None = None
    needs: str | None = None


def type_loss(setting: Setting, size: int) -> Typed:
    """Write the present loss in groups of another size."""
    trainer = setting.table
    if size < trainer.least:
        return Typed(None, f"{trainer.title} takes {trainer.least} or more")
    return Typed(trainer.write({trainer.size: size}))


def type_baseline(setting: Setting, alpha: float, lam: float, size: int) -> Typed:
    """Write a baseline alpha + lambda m in groups of a size; scores sum over tokens."""
    trainer = setting.table
    form = trainer.baselines.get("constant" if size == 1 else "affine")
    if form is None:
        return Typed(None, f"{trainer.title} must take advantages of your own for it")
    typed = form.format(size=size, alpha=alpha, lam=lam)
    return Typed(typed, needs=setting.needs or None)


class Settable(NamedTuple):
    """A training that could be set: where it points, and what is typed for it."""

    entry: EstimatorEntry
    group_size: int
    aim: Aim
    typed: Typed


@dataclass(frozen=True)
class Ladder:
    """Prices over the user's training, or over GRPO-type in groups of its size."""

    evidence: Evidence

    @cached_property
    def entry(self) -> EstimatorEntry:
        """The loss that is priced: the user's own if known at its size, else GRPO-type.

        One that is biased has a direction only where ||g||^2 is significantly positive.
        """
        table, question = self.evidence.table, self.evidence.question
        if (entry := question.estimator) is None:
            return "grpo"
        unbiased = is_unbiased(entry) or find_estimator(entry).unbiased
        known = unbiased or table.knows_gradient(question.level)
        return entry if known and find_aims(table, entry, [question.present]) else "grpo"

    @cached_property
    def base(self) -> Aim:
        """Where the present training points."""
        size = self.evidence.question.present
        size = max(size, 2) if self.entry == "grpo" else size
        return find_aims(self.evidence.table, self.entry, [size])[size]

    @cached_property
    def trainer(self) -> Baseline:
        """The best baseline at a size that the trainer takes; the verdict's, if it has one.

        Of a trainer that takes none: at a size of its groups.
        """
        question, ruling = self.evidence.question, self.evidence.ruling
        sizes = question.fitted or question.allowed or SIZES
        return ruling.baseline or fit_baseline(self.evidence.table, sizes)

    @cached_property
    def best(self) -> Baseline:
        """The best baseline at any size."""
        return fit_baseline(self.evidence.table, {1, *self.evidence.question.settable})

    def price(self, aim: Aim, completions: float) -> Estimate:
        """Price where an estimator points, at some N."""
        table, level = self.evidence.table, self.evidence.question.level
        return steps_ratio(table, aim, self.base, completions, level)

    def _in_epochs(self, size: int, aim: Aim) -> Aim:
        """Cancel the noise of prompts, by GRPO-type for a biased loss.

        Few completions do not tell a biased loss's ||h(x)||^2 of a prompt without bias, so
        not what of its noise is that of prompts.
        """
        if aim.cosine2 is not None:
            aim = find_aims(self.evidence.table, "grpo", [size])[size]
        return aim.in_epochs

    def _made(self, aim: Aim, completions: int) -> Made:
        table, level = self.evidence.table, self.evidence.question.level
        steps = _ONE if aim is self.base else self.price(aim, completions)
        return Made(completions, progress(table, aim, completions, level), steps)

    @cached_property
    def settings(self) -> dict[RowName, Settable]:
        """What could be set, from the present training on."""
        setting, present = self.evidence.setting, self.evidence.question.present
        size = self.evidence.ruling.best
        aims = {present: self.base} | find_aims(self.evidence.table, self.entry, [size])
        # Where its law ends before the size that GRPO-type's asks for, it stays as it is.
        size = size if size in aims else present

        def fitted(one: Baseline) -> Settable:
            typed = type_baseline(setting, one.alpha, one.lam, one.group_size)
            return Settable(one.entry, one.group_size, one.aim, typed)

        return {
            "yours": Settable(self.entry, present, self.base, Typed(None)),
            "size": Settable(self.entry, size, aims[size], type_loss(setting, size)),
            "trainer": fitted(self.trainer),
            "best": fitted(self.best),
        }

    def rows(self) -> Iterator[LadderRow]:
        """Price what could be set."""
        question, table = self.evidence.question, self.evidence.table
        completions, level = question.completions, question.level
        present = self.settings["yours"].group_size
        asked = sorted({*STEPS, int(completions)} - {0})
        for name, (entry, size, aim, typed) in self.settings.items():
            yours = _ONE if aim is self.base else None
            epochs = (self._in_epochs(size, aim), self._in_epochs(present, self.base))
            alpha, lam = find_estimator(entry).affine or (None, None)
            yield LadderRow(
                row=name,
                estimator=entry,
                group_size=size,
                alpha=alpha,
                lam=lam,
                cost=yours or self.price(aim, completions),
                in_epochs=yours or steps_ratio(table, *epochs, completions, level),
                progress=tuple(self._made(aim, one) for one in asked),
                **typed._asdict(),
            )

    def curves(self, completions: Sequence[float]) -> dict[str, Floats]:
        """Give steps over yours at some N, (N, 3) of value, low, high, by what is set.

        The oracle, which knows each prompt's value, stands beside what can be set.
        """
        size = self.evidence.question.present
        oracle = find_aims(self.evidence.table, "oracle", [size])[size]
        aims = {name: one.aim for name, one in self.settings.items()} | {"oracle": oracle}
        return {
            name: np.array([self.price(aim, at) for at in completions])
            for name, aim in aims.items()
        }
