"""Extrapolation: what a run will take, and how wide its intervals will be."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.mse.replicates import Key
from mse_lab.results.analysis import Analysis

# Factors by which a run's time may differ from the plan's: on a busy machine, and where
# too few prompts were measured to estimate their spread.
LEAST_FACTOR, UNKNOWN_FACTOR, FEWEST_PROMPTS = 1.25, 2.0, 3


class Costs(NamedTuple):
    """The cost of prompts: seconds of each stage, tokens drawn, bytes on the disk."""

    draw: float
    reference: float
    score: float
    rest: float
    tokens: float
    disk: float

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return self.draw + self.reference + self.score + self.rest


def costs_of(prompt: PromptMeasurement) -> Costs:
    """Count what a measured prompt cost, with the vectors that are deleted in the end."""
    arrays, summary = prompt.arrays, prompt.completions
    drawn = len(arrays.reference_rewards_N) + len(arrays.rewards_N)
    sizes = [part.nbytes for part in vars(arrays).values() if isinstance(part, np.ndarray)]
    seconds, disk = prompt.provenance.seconds_S, len(summary.lines.encode()) + sum(sizes)
    return Costs._make([*seconds.tolist(), summary.mean_length * drawn, disk])


def extrapolate(
    lengths_P: Sequence[int], measured: Mapping[int, Costs]
) -> tuple[Costs, float]:
    """Predict what P prompts take together from those measured, by index.

    Each of the n prompts that are left is assumed to cost the mean of m measured prompts,
    without the longest one, which was measured first, costs the most, and includes what is
    set up once. With s the standard deviation of the m, the seconds are right within
    t s n sqrt(1/n + 1/m), with 95% confidence; that is returned as a factor.
    """
    longest = max(measured, key=lambda index: lengths_P[index])
    others = [costs for index, costs in measured.items() if index != longest]
    mean_C = np.mean(others or [measured[longest]], axis=0)
    left = len(lengths_P) - len(measured)
    total = Costs._make(np.sum(list(measured.values()), axis=0) + left * mean_C)
    if not left:
        return total, LEAST_FACTOR
    if len(others) < FEWEST_PROMPTS:
        return total, UNKNOWN_FACTOR
    deviation = float(np.std([costs.seconds for costs in others], ddof=1))
    error = deviation * left * math.sqrt(1 / left + 1 / len(others))
    factor = 1 + stats.t.ppf(0.975, len(others) - 1) * error / total.seconds
    return total, max(LEAST_FACTOR, float(factor))


def expect_widths(analysis: Analysis, prompts: int) -> dict[Key, float]:
    """Predict half-widths of a run's intervals, relative to the MSE, by its first prompts.

    With r times as many prompts, all like these, the variance relative to the squared value
    falls as 1 / r, and D degrees of freedom become (D + 2) r - 2. A bias does not shrink;
    where there is one, the interval becomes narrower than this, relative to the MSE. The
    law is used without replicates.
    """
    growth = prompts / analysis.pools.prompts
    widths: dict[Key, float] = {}
    for key, (measured, law) in analysis.points.items():
        if curve := measured or law:
            whole = curve.statistic()
            degrees = max((whole.degrees + 2) * growth - 2, 1.0)
            student = float(stats.t.ppf((1 + analysis.level) / 2, degrees))
            relative = whole.error / whole.value if whole.value > 0 else math.nan
            widths[key] = student * relative / math.sqrt(growth)
    return widths


class Advising(NamedTuple):
    """What `advise` would take."""

    first: int  # Completions at the first look.
    most: int  # Completions at most.
    seconds_each: float  # Seconds for one completion.


@dataclass(frozen=True)
class Plan:
    """What a run of a probe will take."""

    probe: str
    prompts: int
    completions: int  # Drawn in all.
    tokens: float  # Drawn in all.
    seconds: Mapping[str, float]  # Of every stage, in order.
    disk_bytes: float  # On the disk until the run is finished.
    peak_memory_bytes: float  # The most memory that the measured prompts took.
    budget_bytes: int  # Memory that the run may take.
    # Completions of a block that are scored at once, and all completions of a block.
    block: tuple[int, int]
    factor: float  # The time is right within this factor, with 95% confidence.
    prompts_measured: int
    seconds_measured: float
    half_widths: Mapping[Key, float]  # As `expect_widths` gives them, at the `level`.
    level: float
    wanted_width: float  # The probe's `interval.width`.
    # What `advise` takes instead; None where it needs more prompts or memory, or where
    # completions are read.
    advising: Advising | None = None
    # The first prompt as the model gets it, and rewards; a line each.
    first_prompt: Sequence[str] = ()
    warnings: Sequence[str] = ()  # What has no rule for its scores, and what that costs.

    @property
    def range(self) -> tuple[float, float]:
        """The least and the most seconds that the run may take; at least those spent."""
        total = sum(self.seconds.values())
        return max(total / self.factor, self.seconds_measured), total * self.factor
