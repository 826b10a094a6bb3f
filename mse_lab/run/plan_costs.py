"""What a run costs, extrapolated from the prompts that are measured.

A measured prompt costs what it did. Any other has a cost between the mean of the measured
prompts and that of the longest of them, by its length t in tokens,

    cost = base + min(1, max(0, (t - t_base) / (t_longest - t_base))) (top - base),

base and t_base the means of those shorter than the longest.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.mse.measurement import PromptMeasurement, stack
from mse_lab.results.analysis import Analysis, analyse_run
from mse_lab.results.tables import describe_prompts
from mse_lab.run.plan_widths import FEW, Widths
from mse_lab.run.prepare import RunSpec

# Factors by which a run's time may differ from the plan's: the least, since the same work
# takes longer on a busy machine, and that for too few prompts to estimate their spread.
LEAST, UNLIKE = 1.25, 2.0


@dataclass(frozen=True)
class Row:
    """One stage of a run: completions, their tokens, bytes where measured, seconds."""

    stage: str
    completions: int
    tokens: float
    memory: float | None
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a run of a probe will take; of a finished one nothing but the heading.

    The total counts each completion once, and has the peak memory. Its seconds are right
    within the factor, and include those already spent on the measured prompts. Heading,
    remarks and warnings are lines of text.
    """

    probe: str
    heading: Sequence[str]
    rows: Sequence[Row] = ()
    total: Row = Row("total", 0, 0.0, None, 0.0)
    factor: float = 1.0
    prompts_measured: int = 0
    seconds_measured: float = 0.0
    remarks: Sequence[str] = ()
    half_widths: Widths | None = None
    warnings: Sequence[str] = ()

    @property
    def range(self) -> tuple[float, float]:
        """Seconds that it may take, at least those already spent."""
        seconds = self.total.seconds
        return max(seconds / self.factor, self.seconds_measured), seconds * self.factor


class Costs(NamedTuple):
    """What prompts cost.

    Seconds of each stage; tokens of all completions, and of those scored; bytes of the
    reference vectors, deleted when the run is finished, and of all else, which is kept.
    """

    draw: float
    reference: float
    score: float
    rest: float
    tokens: float
    scored: float
    vectors: float
    kept: float


def costs_of(prompt: PromptMeasurement) -> Costs:
    """Give what a measured prompt cost."""
    arrays, summary = prompt.arrays, prompt.completions
    drawn = len(arrays.reference_rewards_N) + len(arrays.rewards_N)
    tokens, scored = summary.mean_length * drawn, float(arrays.lengths_N.sum())
    sizes = [one.nbytes for one in vars(arrays).values() if isinstance(one, np.ndarray)]
    vectors = arrays.mean_D.nbytes + arrays.difference_D.nbytes
    kept = len(summary.lines.encode()) + sum(sizes) - vectors
    seconds = prompt.provenance.seconds_S.tolist()
    return Costs._make([*seconds, tokens, scored, vectors, kept])


def extrapolate(
    lengths_P: Sequence[int], measured: Mapping[int, Sequence[float]]
) -> Floats:
    """Extrapolate the C costs of P prompts, (P, C), from those of some, by index.

    >>> extrapolate([10, 40, 20, 30, 5], {1: [7.0], 2: [3.0]}).ravel()
    array([3., 7., 3., 5., 3.])
    """
    lengths, indices = np.asarray(lengths_P), list(measured)
    costs_MC, at_M = np.array(list(measured.values())), lengths[indices]
    longest_M = at_M == at_M.max()
    others_M = longest_M if longest_M.all() else ~longest_M
    base_C, top_C = costs_MC[others_M].mean(0), costs_MC[longest_M].mean(0)
    share_P = np.interp(lengths, [at_M[others_M].mean(), at_M.max()], [0, 1])
    costs_PC = base_C + share_P[:, None] * (top_C - base_C)
    costs_PC[indices] = costs_MC
    return costs_PC


def add_up(lengths_P: Sequence[int], prompts: Mapping[int, PromptMeasurement]) -> Costs:
    """Predict what all prompts take together from the measurements of some."""
    measured = {index: costs_of(prompt) for index, prompt in prompts.items()}
    return Costs._make(extrapolate(lengths_P, measured).sum(0).tolist())


def spread(lengths_P: Sequence[int], seconds: Mapping[int, float]) -> float:
    """Give the factor within which the predicted time is right, with 95% confidence.

    The n prompts that are left, of standard deviation s, add up to n times the mean of m
    measured, within t s n sqrt(1/n + 1/m). The longest is not among the m: it says little
    about the others, and as the first prompt it includes what is set up once.
    """
    left = len(lengths_P) - len(seconds)
    if not left:
        return LEAST
    longest = max(seconds, key=lambda index: lengths_P[index])
    others = [value for index, value in seconds.items() if index != longest]
    if len(others) < FEW:
        return UNLIKE
    total = extrapolate(lengths_P, {index: [one] for index, one in seconds.items()}).sum()
    error = float(np.std(others, ddof=1)) * left * (1 / left + 1 / len(others)) ** 0.5
    return max(LEAST, float(1 + stats.t.ppf(0.975, len(others) - 1) * error / total))


def _analyse(spec: RunSpec, prompts: Sequence[PromptMeasurement]) -> tuple[Analysis, float]:
    """Analyse measured prompts as a run does, without writing; give the seconds."""
    began, unknown = time.perf_counter(), [0.0] * len(prompts)
    described = describe_prompts(spec.prompts[:1] * len(prompts), unknown, unknown)
    pools = stack([one.arrays for one in prompts])
    result = analyse_run(spec.name, spec.probe, pools, described)
    _ = (result.tables, result.warnings)
    return result, time.perf_counter() - began


def analyse_few(
    spec: RunSpec, prompts: Sequence[PromptMeasurement]
) -> tuple[Analysis, float]:
    """Analyse the measured prompts; extrapolate the seconds of an analysis of all.

    Estimators that use other prompts need two: a single prompt is analysed as two equal.
    """
    few = list(prompts) if len(prompts) > 1 else [*prompts, *prompts]
    (result, some), (_, more) = _analyse(spec, few), _analyse(spec, few * 2)
    left = len(spec.prompts) - len(few)
    return result, some + max(more - some, 0) / len(few) * max(left, 0)
