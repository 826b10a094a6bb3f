"""Evidence: prompts that were measured, where they come from, and what is asked of them.

A finished run and few completions of each prompt are one record. They differ in how ratios
of costs are bounded: at one look, or at all looks together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.config.schema import Probe
from mse_lab.config.training import Setting, fits
from mse_lab.estimators import find_estimator
from mse_lab.mse.laws import WRONG_RIGHT
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.regime import Regime, find_regime
from mse_lab.mse.rule import (
    LARGEST_CANDIDATE,
    LEAST_CARRIERS,
    SIZES,
    TOLERANCE,
    Question,
    Ruling,
    Stopped,
    prompts_needed,
    rule_by_looks,
)
from mse_lab.mse.samples import Samples
from mse_lab.results.analysis import Analysis


def ask(
    setting: Setting, level: float, tolerance: float = TOLERANCE, completions: int = 0
) -> Question:
    """Ask about a training; `completions` a step, if given, count instead of its own.

    An estimator that is not defined, or zero, in groups of the size in use is refused.
    """
    estimator = setting.estimator and find_estimator(setting.estimator)
    if estimator and setting.group_size < estimator.smallest_group:
        raise setting.refuse(
            f"{setting.named}: {estimator.name} gives no gradient there; it takes "
            f"{estimator.smallest_group} or more"
        )
    return Question(
        estimator=setting.estimator,
        present=setting.group_size,
        completions=completions or setting.completions_per_step or 0,
        tolerance=tolerance,
        level=level,
        allowed=allowed_sizes(setting),
        fitted=fitted_sizes(setting),
    )


def allowed_sizes(setting: Setting) -> tuple[int, ...]:
    """The group sizes that the trainer takes at its batch; () where that is unknown."""
    if setting.batch is None:
        return ()
    return tuple(size for size in range(2, LARGEST_CANDIDATE + 1) if fits(setting, size))


def fitted_sizes(setting: Setting) -> tuple[int, ...]:
    """The group sizes at which the trainer takes a baseline alpha + lambda m; () for none.

    Those of its own settings: TRL's begin at 2, though `with_baseline` sets 1, too.
    """
    trainer = setting.table
    if not trainer.baselines or setting.elsewhere:
        return ()
    alone = (1,) if trainer.least == 1 else ()
    return alone + (allowed_sizes(setting) or SIZES)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Three prompts or more, measured, and a question about a training."""

    name: str  # The probe's.
    table: PromptTable
    rewards: Sequence[Floats]  # Of each prompt's completions.
    setting: Setting
    question: Question
    seed: int  # Of the draws of an interval.
    held: bool = True  # Whether all built-in checks hold.
    warnings: tuple[str, ...] = ()
    # Of few completions: why there are no more, and how many prompts to draw from in all.
    stopped: Stopped | None = None
    at_hand: int = 0

    @cached_property
    def ruling(self) -> Ruling:
        """The verdict on the training; none on another objective's."""
        # Few completions are looked at again and again.
        looked = self.table.drawn is not None
        ruling = rule_by_looks(self.table, self.question, looked=looked)
        if not self.setting.elsewhere:
            return ruling
        present = self.question.present
        untold = ruling.untold(present)
        return untold._replace(best=present, at_most=math.inf, at_least=0.0)

    @cached_property
    def regime(self) -> Regime:
        """On which side of vanilla the prompts are."""
        table, most = self.table, self.table.effective_prompts
        binary = table.values == WRONG_RIGHT
        return find_regime(table.moments, binary, self.question.level, most)

    @cached_property
    def needed(self) -> int | None:
        """Prompts of those at hand that hardly tell yet, where the verdict does not."""
        if self.ruling.told or self.at_hand <= self.table.prompts:
            return None
        needed = prompts_needed(self.table, self.question)
        return needed if needed is not None and needed <= self.at_hand else None


def evidence_of_run(
    run: Analysis, setting: Setting, regret: float = TOLERANCE, completions: int = 0
) -> Evidence:
    """Take the prompts of a finished run, or of anybody's pools, as evidence."""
    pools = run.pools
    return Evidence(
        name=run.name,
        table=run.table,
        rewards=list(np.hstack([pools.reference_rewards_PN, pools.rewards_PN])),
        setting=setting,
        question=ask(setting, run.level, regret, completions),
        seed=run.probe.seed,
        held=run.held,
        warnings=tuple(run.warnings),
    )


def evidence_of_samples(
    name: str,
    probe: Probe,
    samples: Samples,
    setting: Setting,
    question: Question,
    stopped: Stopped,
    prompts: int,
    *,
    held: bool = True,
    warnings: Sequence[str] = (),
) -> Evidence:
    """Take few completions of each prompt, of `prompts` in the probe's source."""
    table = PromptTable.of_samples(samples, probe.prompts.population_size(prompts))
    carriers = table.effective_prompts
    if carriers < LEAST_CARRIERS and table.size > table.prompts:
        warnings = (
            *warnings,
            f"some {carriers:.0f} of {table.prompts} prompts carry what decides the group "
            "size (c1 and c3): intervals may cover less than they say; take more prompts",
        )
    return Evidence(
        name=name,
        table=table,
        rewards=samples.rewards,
        setting=setting,
        question=question,
        seed=probe.seed,
        held=held,
        warnings=tuple(warnings),
        stopped=stopped,
        at_hand=prompts,
    )


class UserSetting(NamedTuple):
    """What the verdict is about: the user's training."""

    trainer: str  # `trl`, `rloo`, `verl` or `other`.
    group_size: int
    estimator: str  # The name of the estimator that its settings compute, or `unknown`.
    named: str  # The settings that say so, under the trainer's names.
    given: bool  # Whether any were given; else they are TRL's defaults.
    uncounted: tuple[str, ...]  # Settings that change the gradient, not counted in here.
    completions_per_step: int | None  # N; None where it is not known.
    elsewhere: str = ""  # The setting that climbs another objective than the mean reward.

    @classmethod
    def of(cls, setting: Setting) -> "UserSetting":
        """Put the estimator's name in its place."""
        values = {name: getattr(setting, name) for name in cls._fields}
        entry = setting.estimator
        name = "unknown" if entry is None else find_estimator(entry).name
        return cls(**values | {"estimator": name})
