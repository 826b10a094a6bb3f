"""A sampled run: few completions of each prompt, and why there are no more.

What needs replicates or a reference is not known: estimators whose weights depend on norms
or lengths, and the MSE of single groups.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from mse_lab.answers.judged import Judged
from mse_lab.arrays import Floats
from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.moments import Moments
from mse_lab.mse.own_loss import Bound
from mse_lab.mse.regime import measure_norm_ratio
from mse_lab.mse.regret import SIZES, TOLERANCE, Choice, recommend
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import LEAST_CARRIERS, Stopped, bound_by_sequence, sequence_bounds
from mse_lab.mse.verdict import Ruling, rule_by_sequence
from mse_lab.probe.schema import EstimatorEntry
from mse_lab.probe.training import DEFAULT, Setting


@dataclass(frozen=True, eq=False)
class SampledRun(Judged):
    """Samples of three prompts or more, with what advice needs of them."""

    name: str  # The probe's.
    samples: Samples  # What was drawn.
    stopped: Stopped  # Why no more was.
    level: float = 0.95  # Coverage of intervals.
    # How much more than the best group size the recommended one may cost.
    tolerance: float = TOLERANCE
    seed: int = 0  # The probe's.
    resamples: int = 2000  # Draws where an interval is drawn.
    entries: tuple[EstimatorEntry, ...] = ()  # Estimators of the probe.
    held: bool = True  # Whether all built-in checks hold.
    told: tuple[str, ...] = ()  # Warnings of its completions.
    size: float = math.inf  # How many prompts there are in all.
    setting: Setting = DEFAULT  # The training that is judged.

    # No replicate confirms a law, and what has none is not known.
    law_only: ClassVar[bool] = True
    sizes: ClassVar[tuple[int, ...]] = SIZES

    @property
    def completions(self) -> int:
        """How many were drawn."""
        return self.samples.completions

    @property
    def differentiated(self) -> int:
        """How many of them were differentiated."""
        return self.samples.differentiated

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its reader should know, a sentence each."""
        carriers, prompts = self.population.effective_prompts, self.samples.prompts
        if carriers >= LEAST_CARRIERS:
            return self.told
        few = (
            f"some {carriers:.0f} of {prompts} prompts carry what decides the group size "
            "(c1 and c3): intervals may cover less than they say; take more prompts"
        )
        return (*self.told, few)

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return self.samples.binary

    @property
    def rewards(self) -> list[Floats]:
        """Rewards of each prompt's completions."""
        return self.samples.rewards

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        return self.samples.moments

    @cached_property
    def population(self) -> Population:
        """The distribution, or the set, that the prompts are drawn from."""
        return Population(self.samples, size=self.size)

    @cached_property
    def constants(self) -> dict[str, Estimate]:
        """c1 to c3 and their like, with intervals; the best constant's is not known."""
        found = self.population.estimates(self.level)
        value = found["best_constant"].value
        return found | {"best_constant": Estimate(value, math.nan, math.nan)}

    @cached_property
    def choice(self) -> Choice:
        """The recommended group size, by bounds that hold at all looks together."""
        bounds = sequence_bounds(self.population, self.level)
        present = self.setting.group_size
        return recommend(self.population, bounds, self.tolerance, present)

    @property
    def spent(self) -> tuple[int, float]:
        """Completions that were drawn, and the seconds that they took; 0 if unknown."""
        blocks = [block for each in self.samples.blocks for block in each]
        return self.completions, sum(block.seconds for block in blocks)

    def bound(self, prompts: int | None = None) -> Bound:
        """Bound ratios of costs by the sequence, which holds at all looks together."""
        return bound_by_sequence(self.population, self.level, prompts)

    @cached_property
    def ruling(self) -> Ruling:
        """The verdict on the group size in use."""
        return rule_by_sequence(self.population, self.priced, self.question)

    @property
    def rho_P(self) -> Floats:
        """Rho of each prompt; NaN where it has no right or no wrong completions."""
        if not self.binary:
            return np.full(self.samples.prompts, np.nan)
        ratios = []
        for blocks in self.samples.blocks:
            norms2 = np.concatenate([np.diagonal(block.gram_KK) for block in blocks])
            rewards = np.concatenate([block.rewards_N[block.scored_K] for block in blocks])
            ratios.append(measure_norm_ratio(norms2, rewards, self.level).value)
        return np.array(ratios)
