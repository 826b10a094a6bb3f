"""Costs: what a trial took -> what a run will take.

Operations are alpha times the prompts' tokens plus beta times the completions' own, alpha
and beta from the trial's counted passes; those of Gram products follow from the shapes.
Seconds are a cost of each pass through the model plus one of each operation (of each
completion, where the model is not used), both fitted to the trial's timed passes. What the
completions are like, and how many are distinct, is told by those of the trial
(`repeats.py`), each prompt's by itself.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import nnls

from mse_lab.probe.schema import Probe
from mse_lab.run.memory import Memory
from mse_lab.run.plan_passes import Pass, alike, reduced_operations
from mse_lab.run.plan_repeats import Sample
from mse_lab.run.plan_trial import Trial
from mse_lab.run.plan_watch import (
    DRAWING,
    KEPT,
    MODEL_STAGES,
    PASSES,
    PRODUCTS,
    REFERENCE,
    REST,
    REWARDS,
    RIVALS,
)
from mse_lab.run.plan_work import (
    Batch,
    Lengths,
    Work,
    drawing_work,
    in_parts,
    reference_work,
    scoring_work,
)

# Stages that are there once a prompt, whatever the completions.
ONCE = (KEPT,)

# Of least squares relative to the last fit.
ROUNDS, TINY = 5, 1e-12

# Least factors by which a run's time may differ from the plan's; see `spread`.
WHOLE, PARTS, UNLIKE = 1.25, 1.5, 2.0

# Prompts that tell their own spread.
FEW = 3

# Blocks of a prompt whose cost is estimated; the others cost the same.
BLOCKS = 32


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
        """Cost of the Gram products of completions that are scored together.

        Args:
            completions: The distinct ones.
            prompt: Tokens of their prompt.
            longest: Tokens of the longest of them.
        """
        counted = self.trial.counted[-1]
        operations = reduced_operations(counted, completions, prompt, longest)
        return Cost(Work(), operations, self._seconds(PRODUCTS, 1, operations))

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
    return [1.0, 0.0 if stage in ONCE else float(len(one.drawn))]


def _operations_per_token(trial: Trial, stage: str) -> tuple[float, ...]:
    """Fit the operations of a token of the prompt, and of a token of a completion.

    Where the counted passes have them in nearly the same proportion, they are taken to cost
    the same.
    """
    works = [one.work[stage] for one in trial.counted]
    counts = [one.operations.get(stage, 0) for one in trial.counted]
    if not all(counts):
        return 0.0, 0.0
    if alike(trial.counted, stage):
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
        reduced = [
            reduced_operations(counted, len(part), one.prompt, float(part.max()))
            for part in one.parts
        ]
        return [float(len(reduced)), sum(reduced)]

    stages = dict.fromkeys(stage for one in timed for stage in one.seconds)
    per_load = {}
    for stage in stages:
        # What is kept is a vector of the parameters, whatever the pass.
        passes = trial.largest if stage in ONCE else timed
        known = [one for one in passes if stage in one.seconds]
        per_load[stage] = fit(
            [loads(one, stage) for one in known], [one.seconds[stage] for one in known]
        )
    return Rates(trial, memory, per_token, per_load)


def _batches(sample: Sample, completions: int, at_once: int) -> list[Batch]:
    """Expect the batches in which a pool is drawn."""
    full, rest = divmod(completions, at_once)
    batches = [sample.batch(at_once)] * full if full else []
    return batches + ([sample.batch(rest)] if rest else [])


def _products_cost(rates: Rates, parts: Sequence[Lengths], prompt: float) -> Cost:
    """Cost of the Gram products of completions that are scored together."""
    longest = float(np.mean([part.max() for part in parts]))
    sizes = Counter(map(len, parts))
    costs = (
        rates.of_products(size, prompt, longest).times(count)
        for size, count in sizes.items()
    )
    return sum(costs, Cost())


def _scoring_costs(
    rates: Rates, probe: Probe, prompt: float, sample: Sample, rng: np.random.Generator
) -> dict[str, Cost]:
    """Estimate what the replicates of one prompt cost, from some of its blocks."""
    how, group = rates.memory.scoring.current, probe.largest_group
    blocks = probe.pool.replicate // group
    some = min(blocks, BLOCKS)
    drawn = [sample.lengths(group, rng) for _ in range(some)]
    parts = [part for block in drawn for part in in_parts(block, how.block)]
    work = scoring_work(parts, some * group, prompt, how).times(blocks / some)
    products = _products_cost(rates, parts, prompt).times(blocks / some)
    return {
        PASSES: rates.of_model(PASSES, work),
        PRODUCTS: products._replace(work=Work(probe.pool.replicate)),
    }


def prompt_costs(
    rates: Rates, probe: Probe, prompt: float, sample: Sample, rng: np.random.Generator
) -> dict[str, Cost]:
    """Estimate what one prompt costs, a row of the table each.

    Args:
        rates: What was learnt from the trial.
        probe: The run's configuration.
        prompt: Tokens of the prompt.
        sample: Completions such as it has.
        rng: Draws completions from the sample.
    """
    size, memory = probe.pool, rates.memory
    halves = [sample.lengths(size.reference // 2, rng) for _ in range(2)]
    passes = reference_work(halves, size.reference, prompt, memory.reference.current)

    def drawn(pool: int) -> Cost:
        batches = _batches(sample, pool, memory.drawing.current)
        return rates.of_model(DRAWING, drawing_work(batches, prompt))

    completions = size.reference + size.replicate
    return {
        "draw reference": drawn(size.reference),
        REFERENCE: rates.of_model(REFERENCE, passes),
        "draw replicate": drawn(size.replicate),
        **_scoring_costs(rates, probe, prompt, sample, rng),
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
    sample: Sample,
    rng: np.random.Generator,
) -> dict[str, Cost]:
    """Estimate what a prompt of the run costs on average, by quartile of their lengths.

    Args:
        rates: What was learnt from the trial.
        probe: The run's configuration.
        prompts: Tokens of every prompt.
        sample: Completions such as they have.
        rng: Draws completions from the sample.
    """
    quartiles = np.array_split(np.sort(prompts), min(4, len(prompts)))
    return mean_costs(
        [prompt_costs(rates, probe, float(part.mean()), sample, rng) for part in quartiles]
    )


def seconds_of(one: Pass, rates: Rates) -> float:
    """What the rates say that a pass of the trial takes, beside what it took."""
    costs = [rates.of_model(stage, one.work[stage]) for stage in MODEL_STAGES]
    costs += [
        rates.of_products(len(part), one.prompt, float(part.max())) for part in one.parts
    ]
    others = [stage for stage in one.seconds if stage not in (*MODEL_STAGES, PRODUCTS)]
    costs += [
        rates.of_other(stage, 0 if stage in ONCE else len(one.drawn)) for stage in others
    ]
    return sum(cost.seconds for cost in costs)


def spread(
    trial: Trial, seconds_P: Sequence[float], rates: Rates, *, repeats: bool
) -> float:
    """Say by which factor the time may be off, either way.

    The trial's prompts differ in their completions' lengths and in how long the same work
    took; the interval on their mean follows, 95 percent. It is no less than `WHOLE` where
    three prompts or more were timed at the run's own sizes, else `PARTS`: in processor time
    runs took 0.85 to 1.08 times the plan's estimate on six probes of the tiny and of 4M
    models, and what else goes on on a machine changes wall time by more. Fewer prompts do
    not tell how unlike they are: `UNLIKE` where completions repeat, those of some prompts
    far more often than those of others.

    Args:
        trial: The trial.
        seconds_P: Of each of its prompts, the expected seconds of a prompt like it.
        rates: What was learnt from the trial.
        repeats: Whether completions of a prompt repeat.
    """
    count = len(trial.largest)
    if count < FEW:
        return UNLIKE if repeats else PARTS
    observed = [
        seconds * one.total / seconds_of(one, rates)
        for seconds, one in zip(seconds_P, trial.largest, strict=True)
    ]
    error = float(np.std(observed, ddof=1) / np.sqrt(count) / np.mean(observed))
    interval = 1 + float(stats.t.ppf(0.975, count - 1)) * error
    return max(WHOLE if trial.whole else PARTS, interval)
