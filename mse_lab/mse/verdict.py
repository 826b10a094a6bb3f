"""The verdict on the group size in use: keep it, change it, or it cannot be told.

The regret of a size is what it costs beyond the best one. With bounds of all ratios of
costs, cost(G) / cost(H) <= upper[G, H],

    keep    the present size's regret is at most `tolerance`: max_H upper[present, H] - 1
    change  it is more: cost(present) / cost(H) >= 1 / upper[H, present] > 1 + tolerance for
            some H; and the regret of the size to set is at most `tolerance`, or it is such
            an H itself

Drawing goes on until the size is kept, or the regret of the size to set is at most
`tolerance`; the saving alone is said where there are no more completions.

The costs are those of the user's own loss where its law gives them (`own_loss.py`), else
GRPO-type's. The bounds are a confidence sequence's while completions are drawn
(`stopping.py`), and intervals' of a finished run. `tests/README.md` has how often a verdict
is false.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.estimators import find_estimator
from mse_lab.formatting import with_interval
from mse_lab.mse.budget import Population, mse_times_budget
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.laws import BinaryLaw, find_law
from mse_lab.mse.own_loss import (
    CONSTANT,
    Bound,
    Costs,
    is_bracketed,
    own_costs,
    without_batch,
)  # fmt: skip
from mse_lab.mse.regret import (
    COMPARED,
    LARGEST,
    SIZES,
    TOLERANCE,
    Choice,
    choose_size,
    ratios_of_intervals,
    recommend,
)
from mse_lab.mse.samples import Blocks, Samples
from mse_lab.mse.stopping import (
    LEAST_CARRIERS,
    WIDTH,
    bound_by_sequence,
    log_width,
    sequence_bounds,
)
from mse_lab.probe.schema import EstimatorEntry
from mse_lab.probe.training import DEFAULT

Verdict = Literal["keep", "change", "cannot tell"]

# Completions of the budget that errors are stated for; nearly every figure is free of it.
BUDGET = 1024

GRPO_TYPE = ("grpo", "centred")  # Entries of estimators that are it up to a factor.

MOST_PROMPTS = 10**6  # Beyond it nobody measures.

MOST_OWN = 64  # Up to here, or twice the present size, laws are evaluated: it takes time.


class Question(NamedTuple):
    """What is asked: whether the group size of a training is all right."""

    estimator: EstimatorEntry | None = DEFAULT.estimator  # None for one that is not ours.
    present: int = DEFAULT.group_size
    tolerance: float = TOLERANCE  # The regret that is all right.
    level: float = 0.95
    budget: float = BUDGET


class Ratios(NamedTuple):
    """Costs of K group sizes, and upper bounds of each over each other one."""

    costs: dict[int, float]
    upper_KK: Floats
    own: bool  # Whether they are those of the user's own loss, else GRPO-type's.

    @property
    def bounds(self) -> dict[int, float]:
        """Upper bound of each size's regret."""
        return dict(zip(self.costs, (self.upper_KK.max(1) - 1).tolist(), strict=True))


class Ruling(NamedTuple):
    """A verdict, with what it rests on."""

    verdict: Verdict
    set_to: int  # The size to set; the present one unless the verdict is `change`.
    saves: Estimate | None  # Share of completions that setting it saves; None: not told.
    at_most: float  # The present size's regret is at most that; infinite where unknown.
    at_least: float  # And at least that.
    own_loss: bool  # Whether the costs are those of the user's own loss, else GRPO-type's.
    best: int  # The size that would be set, whether or not that is shown.
    regret: float  # And its regret is at most that.


class Priced(NamedTuple):
    """Costs of group sizes, over samples of prompts."""

    own: Costs  # Of the user's own loss; empty where they are not known.
    grpo: Costs
    is_grpo: bool  # Whether the user's own loss is GRPO-type, up to a factor.


def price_sizes(population: Population, question: Question, *, binary: bool) -> Priced:
    """Price the sizes that are compared, and the present one.

    A biased loss is priced only where ||g||^2 is significantly positive.
    """
    entry, present = question.estimator, question.present
    sizes = sorted({*COMPARED, present})
    constants = population.samples
    grpo = {size: mse_times_budget("grpo", constants, size) for size in sizes if size > 1}
    kept = None if entry is None else without_batch(entry)
    if kept in GRPO_TYPE:
        return Priced({}, grpo, True)
    known = population.constant("gradient2", question.level).low > 0
    if entry is None or not (known or kept in CONSTANT):
        return Priced({}, grpo, False)
    some = [size for size in sizes if size <= max(MOST_OWN, 2 * present)]
    own = own_costs(population, entry, present, some, question.budget, binary=binary)
    return Priced(own, grpo, False)


def find_ratios(priced: Priced, bound: Bound) -> Ratios:
    """Bound the ratios of costs: of the user's own loss if they are known, or GRPO-type.

    They are known where the best size is shown to be among those that have a law.
    """
    costs, own = priced.own, True
    upper_KK = bound(costs, True) if costs else np.zeros((0, 0))
    if not costs or not is_bracketed([*costs], upper_KK, LARGEST):
        costs, own = priced.grpo, priced.is_grpo
        upper_KK = bound(costs, False)
    values = {size: float(cost[0]) for size, cost in costs.items()}
    return Ratios(values, upper_KK, own)


def rule(ratios: Ratios, question: Question) -> Ruling:
    """Decide by bounds of the costs' ratios."""
    present, tolerance, bounds = question.present, question.tolerance, ratios.bounds
    best = choose_size(ratios.costs, bounds, tolerance, {1, *SIZES, present})
    regret = bounds[best]
    ruling = Ruling("cannot tell", present, None, math.inf, 0.0, ratios.own, best, regret)
    if present not in bounds:
        return ruling
    at, to = [*bounds].index(present), [*bounds].index(best)
    at_most, at_least = bounds[present], float((1 / ratios.upper_KK[:, at]).max() - 1)
    ruling = ruling._replace(at_most=at_most, at_least=max(at_least, 0.0))
    if at_most <= tolerance:
        return ruling._replace(verdict="keep", saves=Estimate(0.0, 0.0, 0.0))
    is_cheaper = float(ratios.upper_KK[to, at]) * (1 + tolerance) < 1
    if at_least <= tolerance or not (regret <= tolerance or is_cheaper):
        return ruling
    saves = Estimate(
        1 - ratios.costs[best] / ratios.costs[present],
        1 - float(ratios.upper_KK[to, at]),
        1 - 1 / float(ratios.upper_KK[at, to]),
    )
    return ruling._replace(verdict="change", set_to=best, saves=saves)


def is_settled(ruling: Ruling, tolerance: float) -> bool:
    """Whether more completions could change what is set by little alone."""
    near = ruling.regret <= tolerance
    return ruling.verdict == "keep" or (ruling.verdict == "change" and near)


def bound_by_intervals(
    population: Population, level: float, prompts: int | None = None
) -> Bound:
    """Make the bounds of a finished run: intervals of the costs' logarithms.

    With `prompts` as many prompts as that would narrow them.
    """
    tiny, most = np.finfo(float).tiny, population.effective_prompts
    narrower = math.sqrt(population.pools.prompts / prompts) if prompts else 1.0

    def bound(costs: Costs, own: bool) -> Floats:
        logs = []
        for cost in costs.values():
            log = population.statistic(lambda _, one: np.log(np.maximum(one, tiny)), cost)
            parts = {run: narrower * part for run, part in log.groups.items()}
            logs.append(replace(log, groups=parts))
        return ratios_of_intervals(logs, level, most)

    return bound


class Needed(NamedTuple):
    """More than this would tell whether to keep the size, if prompts go on as at hand."""

    prompts: int
    completions: int
    seconds: float  # 0 where it is not known what completions take.


def prompts_needed(
    priced: Priced, question: Question, bound: Callable[[int], Bound], prompts: int
) -> int | None:
    """Estimate how many prompts hardly tell yet; None where a million would not tell.

    Half of those that would if costs and spread were as at hand (`stopping/forecasts.csv`).
    """
    more = prompts
    while more < MOST_PROMPTS:
        more += more // 2
        if rule(find_ratios(priced, bound(more)), question).verdict != "cannot tell":
            return max(more // 2, prompts)
    return None


def rule_by_sequence(population: Population, priced: Priced, question: Question) -> Ruling:
    """Decide by samples; not where too few prompts carry c1 and c3."""
    bound = bound_by_sequence(population, question.level)
    ruling = rule(find_ratios(priced, bound), question)
    if population.effective_prompts >= LEAST_CARRIERS:
        return ruling
    return ruling._replace(
        verdict="cannot tell", set_to=question.present, saves=None, at_most=math.inf,
        at_least=0.0,
    )  # fmt: skip


class Decision(NamedTuple):
    """What a look says."""

    # Why to stop; None to go on. `width` is a reason only where there are no more prompts.
    stop: Literal["regret", "width"] | None
    ruling: Ruling  # The verdict on the present size.
    choice: Choice  # The size recommended for GRPO-type.
    best: Estimate  # G* with its interval.

    @property
    def words(self) -> str:
        """The verdict so far, for a line."""
        ruling = self.ruling
        if ruling.verdict != "cannot tell":
            return f"{ruling.verdict}, G = {ruling.set_to}"
        return f"best group size {with_interval(self.best)}"


def decide(
    prompts: Sequence[Blocks],
    question: Question = Question(),  # noqa: B008
    *,
    width: float = WIDTH,
    awaited: int = 0,
    size: float = math.inf,
) -> Decision:
    """Decide by the samples of three prompts or more whether to stop.

    The measurement stops where the verdict is to keep or to change the present size.

    Args:
        prompts: The blocks of each prompt.
        question: What is asked.
        width: Half-width of the interval of log(G*-1) that is narrow enough to stop where
            there are no more prompts.
        awaited: Completions that each prompt will have at the next look. If the law of the
            user's loss is known with these, and not yet, GRPO-type's does not decide.
        size: How many prompts there are in all, if they are a set.
    """
    samples = Samples.of(prompts)
    population, level = Population(samples, size=size), question.level
    priced = price_sizes(population, question, binary=samples.binary)
    ruling = rule_by_sequence(population, priced, question)
    bounds = sequence_bounds(population, level)
    choice = recommend(population, bounds, question.tolerance, question.present)
    stop: Literal["regret", "width"] | None = None
    waits = not ruling.own_loss and _is_awaited(samples, question, awaited)
    if population.effective_prompts >= LEAST_CARRIERS and not waits:
        if is_settled(ruling, question.tolerance):
            stop = "regret"
        elif log_width(population, level) <= width:
            stop = "width"
    return Decision(stop, ruling, choice, population.best_group_size(level))


def _is_awaited(samples: Samples, question: Question, awaited: int) -> bool:
    """Whether the law of the user's loss is known with more completions, but not yet."""
    entry = without_batch(question.estimator or "")
    if not entry or entry in CONSTANT:
        return False
    law = find_law(find_estimator(entry), question.present, binary=samples.binary)
    trials = int(np.min(samples.moments.value_trials))
    return isinstance(law, BinaryLaw) and trials < question.present + 3 <= awaited
