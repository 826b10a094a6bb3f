"""Costs: what a trial took -> what a run will take.

Operations are alpha times the prompts' tokens plus beta times the completions' own, alpha
and beta from the trial's counted passes; those of Gram products follow from the shapes.
Seconds are a cost of each pass through the model plus one of each operation (of each
completion, where the model is not used), both fitted to the trial's timed passes. Lengths
are drawn, with replacement, from those that the trial has met.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import nnls

from mse_lab.config import Probe
from mse_lab.memory import Memory
from mse_lab.plan.passes import Pass, reduced_operations
from mse_lab.plan.trial import Trial
from mse_lab.plan.watch import (
    DRAWING,
    KEPT,
    PASSES,
    PRODUCTS,
    REFERENCE,
    REST,
    REWARDS,
    RIVALS,
)
from mse_lab.plan.work import (
    Lengths,
    Work,
    drawing_work,
    reference_work,
    scoring_work,
)

MODEL_STAGES = (DRAWING, REFERENCE, PASSES)

# Proportions of two kinds of tokens that do not tell apart what each costs.
ALIKE = 1.2

# Stages that are there once a prompt, whatever the completions.
ONCE = (KEPT,)

# Of least squares relative to the last fit.
ROUNDS, TINY = 5, 1e-12

# Least factors by which a run's time may differ from the plan's; see `spread`.
WHOLE, PARTS = 1.25, 1.5

# Prompts that tell their own spread.
FEW = 3


class Cost(NamedTuple):
    """What a stage costs.

    Attributes:
        work: Its work.
        operations: Its operations.
        seconds: Its time.
    """

    work: Work = Work()
    operations: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: object) -> "Cost":
        """Pay both."""
        assert isinstance(other, Cost)
        operations = self.operations + other.operations
        return Cost(self.work + other.work, operations, self.seconds + other.seconds)

    def times(self, factor: float) -> "Cost":
        """Pay so many times."""
        work = self.work.times(factor)
        return Cost(work, factor * self.operations, factor * self.seconds)


def fit(loads_RC: Sequence[Sequence[float]], costs_R: Sequence[float]) -> tuple[float, ...]:
    """Find what each column of the loads costs, not below zero, by relative least squares.

    Relative to what is fitted: relative to what is observed, low observations would count
    more than high ones. Where the rows do not tell the columns apart the cost is shared.

    >>> [round(cost, 6) for cost in fit([[1, 10], [1, 20]], [12, 22])]
    [2.0, 1.0]
    >>> [round(cost, 6) for cost in fit([[1, 10]], [20])]
    [10.0, 1.0]
    >>> [round(cost, 6) for cost in fit([[1], [1]], [1, 3])]
    [2.0]
    """
    loads, costs = np.asarray(loads_RC, dtype=float), np.asarray(costs_R, dtype=float)
    largest = np.maximum(loads.max(0), TINY)
    scaled, expected = loads / largest, costs
    for _ in range(ROUNDS):
        weights = 1 / np.maximum(expected, TINY)
        rows, wanted = scaled * weights[:, None], costs * weights
        found = np.linalg.lstsq(rows, wanted, rcond=1e-9)[0]
        if (found < 0).any():
            found = nnls(rows, wanted)[0]
        expected = scaled @ found
    return tuple(float(cost) for cost in found / largest)


@dataclass(frozen=True)
class Rates:
    """What was learnt from a trial.

    Attributes:
        trial: The trial.
        memory: How much is done at once.
        per_token: Stage -> operations a token of the prompt, and of a completion.
        per_load: Stage -> seconds a step, and an operation or a completion.
    """

    trial: Trial
    memory: Memory
    per_token: Mapping[str, tuple[float, ...]]
    per_load: Mapping[str, tuple[float, ...]]

    def of_model(self, stage: str, work: Work) -> Cost:
        """Cost of a stage that uses the model."""
        prompt, own = self.per_token[stage]
        operations = prompt * work.prompt_tokens + own * work.tokens
        load = operations or work.completions
        return Cost(work, operations, self._seconds(stage, work.steps, load))

    def of_products(self, completions: int, prompt: float, longest: float) -> Cost:
        """Cost of the Gram products of one block.

        Args:
            completions: Completions that are scored together.
            prompt: Tokens of their prompt.
            longest: Tokens of the longest of them.
        """
        counted = self.trial.counted[-1]
        operations = reduced_operations(counted, completions, prompt, longest)
        work = Work(completions)
        return Cost(work, operations, self._seconds(PRODUCTS, 1, operations))

    def of_other(self, stage: str, completions: float) -> Cost:
        """Cost of a stage that does not use the model."""
        work = Work(completions)
        return Cost(work, 0.0, self._seconds(stage, 1, completions))

    def _seconds(self, stage: str, steps: float, load: float) -> float:
        each_step, each_load = self.per_load.get(stage, (0.0, 0.0))
        return each_step * steps + each_load * load


def _loads(one: Pass, stage: str, rates: Mapping[str, tuple[float, ...]]) -> list[float]:
    """Steps and load of a stage in a pass."""
    if stage in MODEL_STAGES:
        work, (prompt, own) = one.work[stage], rates[stage]
        operations = prompt * work.prompt_tokens + own * work.tokens
        return [work.steps, operations or work.completions]
    return [1.0, 0.0 if stage in ONCE else float(len(one.lengths_N))]


def _operations_per_token(trial: Trial, stage: str) -> tuple[float, ...]:
    """Fit the operations of a token of the prompt, and of a token of a completion.

    Where the counted passes have them in nearly the same proportion, they are taken to cost
    the same.
    """
    works = [one.work[stage] for one in trial.counted]
    counts = [one.operations.get(stage, 0) for one in trial.counted]
    proportions = [work.tokens / max(work.prompt_tokens, 1) for work in works]
    if not all(counts):
        return 0.0, 0.0
    if max(proportions) < ALIKE * min(proportions):
        last = works[-1]
        rate = counts[-1] / (last.prompt_tokens + last.tokens)
        return rate, rate
    return fit([[work.prompt_tokens, work.tokens] for work in works], counts)


def learn_rates(trial: Trial, memory: Memory) -> Rates:
    """Fit operations and seconds to a trial."""
    per_token = {stage: _operations_per_token(trial, stage) for stage in MODEL_STAGES}
    timed, counted = trial.timed, trial.counted[-1]

    def loads(one: Pass, stage: str) -> list[float]:
        if stage != PRODUCTS:
            return _loads(one, stage, per_token)
        block = one.sizes.block
        return [1.0, reduced_operations(counted, block, one.prompt, one.longest)]

    stages = dict.fromkeys(stage for one in timed for stage in one.seconds)
    per_load = {}
    for stage in stages:
        # What is kept of a small pass may be zero, and compressed in no time.
        passes = trial.largest if stage in ONCE else timed
        known = [one for one in passes if stage in one.seconds]
        per_load[stage] = fit(
            [loads(one, stage) for one in known], [one.seconds[stage] for one in known]
        )
    return Rates(trial, memory, per_token, per_load)


def _draw_lengths(
    lengths_N: Lengths, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    return rng.choice(lengths_N, size=size)


def known_lengths(one: Pass, longest: int) -> Lengths:
    """Give the lengths that a pass has met; what it cut early counts as the longest."""
    lengths_N = one.lengths_N.copy()
    if one.sizes.positions < longest:
        lengths_N[~one.ended_N] = longest
    return lengths_N


def prompt_costs(
    rates: Rates, probe: Probe, prompt: float, lengths_N: Lengths, rng: np.random.Generator
) -> dict[str, Cost]:
    """Estimate what one prompt costs, a row of the table each.

    Args:
        rates: What was learnt from the trial.
        probe: The run's configuration.
        prompt: Tokens of the prompt.
        lengths_N: Tokens of completions such as it has.
        rng: Draws the lengths of the pools.
    """
    size, memory = probe.pool, rates.memory
    how = memory.scoring.current
    reference = _draw_lengths(lengths_N, size.reference, rng)
    replicate = _draw_lengths(lengths_N, size.replicate, rng)
    at_once = memory.drawing.current
    passes = scoring_work(replicate, prompt, how, probe.largest_group)
    # Padded to the longest of the completions that are scored together.
    longest = passes.tokens / passes.completions
    block = min(how.block, probe.largest_group)
    parts = size.replicate / block
    completions = size.reference + size.replicate
    return {
        "draw reference": rates.of_model(DRAWING, drawing_work(reference, prompt, at_once)),
        REFERENCE: rates.of_model(
            REFERENCE, reference_work(reference, prompt, memory.reference.current)
        ),
        "draw replicate": rates.of_model(DRAWING, drawing_work(replicate, prompt, at_once)),
        PASSES: rates.of_model(PASSES, passes),
        PRODUCTS: rates.of_products(block, prompt, longest).times(parts),
        RIVALS: rates.of_other(RIVALS, completions),
        REST: rates.of_other(REWARDS, completions)
        + rates.of_other(REST, completions)._replace(work=Work()),
        KEPT: rates.of_other(KEPT, 1)._replace(work=Work()),
    }


def mean_costs(costs: Sequence[dict[str, Cost]]) -> dict[str, Cost]:
    """Average the costs of prompts, row by row."""
    return {
        row: sum((one[row] for one in costs), Cost()).times(1 / len(costs))
        for row in costs[0]
    }


def run_costs(
    rates: Rates,
    probe: Probe,
    prompts: Sequence[int],
    lengths_N: Lengths,
    rng: np.random.Generator,
) -> dict[str, Cost]:
    """Estimate what a prompt of the run costs on average, by quartile of their lengths.

    Args:
        rates: What was learnt from the trial.
        probe: The run's configuration.
        prompts: Tokens of every prompt.
        lengths_N: Tokens of completions such as they have.
        rng: Draws the lengths of the pools.
    """
    quartiles = np.array_split(np.sort(prompts), min(4, len(prompts)))
    return mean_costs(
        [
            prompt_costs(rates, probe, float(part.mean()), lengths_N, rng)
            for part in quartiles
        ]
    )


def seconds_of(one: Pass, rates: Rates) -> float:
    """What the rates say that a pass of the trial takes, beside what it took."""
    costs = [rates.of_model(stage, one.work[stage]) for stage in MODEL_STAGES]
    costs.append(rates.of_products(one.sizes.block, one.prompt, one.longest))
    others = [stage for stage in one.seconds if stage not in (*MODEL_STAGES, PRODUCTS)]
    costs += [
        rates.of_other(stage, 0 if stage in ONCE else len(one.lengths_N))
        for stage in others
    ]
    return sum(cost.seconds for cost in costs)


def spread(trial: Trial, seconds_P: Sequence[float], rates: Rates) -> float:
    """Say by which factor the time may be off, either way.

    The trial's prompts differ in their completions' lengths and in how long the same work
    took; the interval on their mean follows, 95 percent. It is no less than `WHOLE` where
    three prompts or more were timed at the run's own sizes, else `PARTS`: in processor time
    runs took 0.85 to 1.08 times the plan's estimate on six probes of the tiny and of 4M
    models, and what else goes on on a machine changes wall time by more.

    Args:
        trial: The trial.
        seconds_P: Of each of its prompts, the expected seconds of a prompt like it.
        rates: What was learnt from the trial.
    """
    count = len(trial.largest)
    if count < FEW:
        return PARTS
    observed = [
        seconds * one.total / seconds_of(one, rates)
        for seconds, one in zip(seconds_P, trial.largest, strict=True)
    ]
    error = float(np.std(observed, ddof=1) / np.sqrt(count) / np.mean(observed))
    interval = 1 + float(stats.t.ppf(0.975, count - 1)) * error
    return max(WHOLE if trial.whole else PARTS, interval)
