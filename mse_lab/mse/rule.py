"""The rule: keep the group size in use, change it, or neither is shown.

The regret of a size is what it costs beyond the best one: steps of a training at N
completions each, or completions where N is unknown (`loss.py`). With bounds of all ratios
of costs, cost(G) / cost(H) <= upper[G, H] (`bounds.py`),

    keep    the present size's regret is at most `tolerance`: max_H upper[present, H] - 1
    change  it is more: cost(present) / cost(H) >= 1 / upper[H, present] > 1 + tolerance for
            some H; and the regret of the size to set is at most `tolerance`, or it is such
            an H itself

The costs are those of the user's loss where its law gives them, else GRPO-type's. Where the
law gives those of some sizes alone, GRPO-type's verdict must hold for the loss among these;
where it gives none, rewards must have two values. Drawing ends with the verdict.
`tests/README.md` has how often a verdict is false.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Literal, NamedTuple, Self

from mse_lab.arrays import Floats
from mse_lab.config.schema import EstimatorEntry
from mse_lab.config.training import DEFAULT
from mse_lab.formatting import with_interval
from mse_lab.mse.bounds import Bound, Priced, bound_ratios
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import (
    CONSTANT,
    GRPO_TYPE,
    Aim,
    costs_of_loss,
    is_bracketed,
    without_batch,
)
from mse_lab.mse.prompt_table import PromptTable

Verdict = Literal["keep", "change", "cannot tell"]

# Why no more completions are drawn: the verdict is known, or there are no more.
Stopped = Literal["regret", "budget", "exhausted"]

# Group sizes that are named unless a batch says which it allows; powers of two fit any.
SIZES = tuple(2**power for power in range(1, 9))
LARGEST_CANDIDATE = max(SIZES)

# By factors of about 2^(1/4): the best costs at most 0.4% more than the best of all.
COMPARED_SIZES = tuple(sorted({round(2 ** (step / 4)) for step in range(4, 33)}))

# The fewest prompts whose gradients can be compared, and in how many rewards must differ.
LEAST_PROMPTS, LEAST_SIGNALS = 3, 2

# Prompts of the first look, and completions of each.
FIRST_PROMPTS, FIRST_COMPLETIONS = 32, 12

TOLERANCE = 0.05  # The regret up to which a group size counts as good as the best.

# Up to here, or twice the present size, laws are evaluated: it takes time.
MOST_WITH_LAW = 64

# Prompts that must carry c1 and c3 for a verdict, where there are others than these: the
# spread of fewer says little of the next one. And for "at most" and "at least" beside it.
LEAST_CARRIERS, CARRIERS_OF_A_BOUND = 10, 20

MOST_PROMPTS = 10**6  # Beyond it nobody measures.


class Question(NamedTuple):
    """What is asked: whether the group size of a training is all right."""

    estimator: EstimatorEntry | None = DEFAULT.estimator  # None for one that is not ours.
    present: int = DEFAULT.group_size
    completions: float = 0.0  # N, completions a step; 0 where it is unknown.
    tolerance: float = TOLERANCE  # The regret that is all right.
    level: float = 0.95
    # Sizes that the trainer takes at its batch; none for powers of two.
    allowed: tuple[int, ...] = ()

    @property
    def settable(self) -> set[int]:
        """The sizes that may be named, the present one among them."""
        return {*(self.allowed or (1, *SIZES)), self.present}

    @property
    def compared(self) -> list[int]:
        """The sizes whose costs are compared: those that a batch allows, if it is known."""
        return sorted({*(self.allowed or (*COMPARED_SIZES, *SIZES)), self.present})


class Ratios(NamedTuple):
    """Costs of K group sizes, and upper bounds of each over each other one."""

    costs: dict[int, float]
    upper_KK: Floats
    of_loss: bool  # Whether they are those of the user's loss, else GRPO-type's.

    @classmethod
    def of(cls, priced: Priced, upper_KK: Floats, *, of_loss: bool) -> Self:
        """Take what sizes cost, less its samples."""
        costs = {size: float(cost[0]) for size, cost in priced.costs.items()}
        return cls(costs, upper_KK, of_loss)

    @property
    def regrets(self) -> dict[int, float]:
        """Upper bound of each size's regret."""
        return dict(zip(self.costs, (self.upper_KK.max(1) - 1).tolist(), strict=True))


class Ruling(NamedTuple):
    """A verdict, with what it rests on."""

    verdict: Verdict
    set_to: int  # The size to set; the present one unless the verdict is `change`.
    saves: Estimate | None  # Share of the cost that setting it saves; None: unknown.
    at_most: float  # The present size's regret is at most that; infinite where unknown.
    at_least: float  # And at least that.
    of_loss: bool  # Whether the costs are those of the user's loss, else GRPO-type's.
    best: int  # The size that would be set, whether or not that is shown.
    regret: float  # And its regret is at most that.


def cheapest(costs: Mapping[int, float], settable: Collection[int]) -> int:
    """Name the cheapest size that a trainer would be set to; of all where there is none.

    >>> cheapest({4: 1.2, 8: 1.02, 11: 1.0, 16: 1.04}, {4, 8, 16})
    8
    """
    usable = {size: cost for size, cost in costs.items() if size in settable} or costs
    return min(usable, key=lambda size: (usable[size], size))


class Prices(NamedTuple):
    """What group sizes cost by the user's loss, and by GRPO-type."""

    loss: Priced | None  # None where it is not known.
    grpo: Priced
    # Whether GRPO-type's verdict is said of a loss that is not known. With rewards of more
    # than two values a loss that divides by their spread has another best size.
    stands_in: bool


def price_sizes(table: PromptTable, question: Question) -> Prices:
    """Price the sizes that are compared: of the user's loss, if known, and of GRPO-type.

    A biased loss is priced only where ||g||^2 is significantly positive. Where the loss is
    GRPO-type up to a factor, both are one.
    """
    entry, present, completions = question.estimator, question.present, question.completions
    constants = table.samples
    grpo = {
        size: Aim.of_unbiased(constants, "grpo", size).cost(completions)
        for size in question.compared
        if size > 1
    }
    other = Priced(grpo, completions, linear=True)
    kept = None if entry is None else without_batch(entry)
    if kept in GRPO_TYPE:
        return Prices(other, other, stands_in=True)
    of_two_values = table.binary or table.values is not None
    if entry is None or not (kept in CONSTANT or table.knows_gradient(question.level)):
        return Prices(None, other, of_two_values)
    some = [size for size in question.compared if size <= max(MOST_WITH_LAW, 2 * present)]
    costs = costs_of_loss(table, entry, present, some, completions)
    loss = Priced(costs, completions, linear=False) if costs else None
    return Prices(loss, other, of_two_values)


def rule_by_costs(prices: Prices, bound: Bound, question: Question) -> Ruling:
    """Decide by the costs of the user's loss, or of GRPO-type where those are not known.

    They are known where the best size is shown to be among those that have a law. Where it
    is not, GRPO-type's verdict stands only if the loss agrees at the sizes that it has.
    """
    loss, grpo, stands_in = prices
    stands = {"keep": stands_in, "change": stands_in, "cannot tell": True}
    if loss is not None:
        ratios = Ratios.of(loss, bound(loss), of_loss=True)
        ruling = rule(ratios, question)
        if loss.linear or is_bracketed([*ratios.costs], ratios.upper_KK, max(grpo.costs)):
            return ruling
        stands["keep"] = ruling.at_most <= question.tolerance
        stands["change"] = ruling.at_least > question.tolerance
    ruling = rule(Ratios.of(grpo, bound(grpo), of_loss=False), question)
    if stands[ruling.verdict]:
        return ruling
    return ruling._replace(
        verdict="cannot tell", set_to=question.present, saves=None, at_least=0.0
    )


def rule(ratios: Ratios, question: Question) -> Ruling:
    """Decide by bounds of the costs' ratios."""
    present, tolerance, regrets = question.present, question.tolerance, ratios.regrets
    best = cheapest(ratios.costs, question.settable)
    regret = regrets[best]
    ruling = Ruling(
        "cannot tell", present, None, math.inf, 0.0, ratios.of_loss, best, regret
    )
    if present not in regrets:
        return ruling
    at, to = [*regrets].index(present), [*regrets].index(best)
    at_most, at_least = regrets[present], float((1 / ratios.upper_KK[:, at]).max() - 1)
    ruling = ruling._replace(at_most=at_most, at_least=max(at_least, 0.0))
    if at_most <= tolerance:
        return ruling._replace(verdict="keep", saves=Estimate(0.0, 0.0, 0.0))
    is_cheaper = float(ratios.upper_KK[to, at]) * (1 + tolerance) < 1
    if at_least <= tolerance or not (regret <= tolerance or is_cheaper):
        return ruling
    return ruling._replace(
        verdict="change", set_to=best, saves=saving(ratios, best, present)
    )


def saving(ratios: Ratios, size: int, present: int) -> Estimate:
    """Share of the cost that a size saves over the present one, with its bounds."""
    at, to = [*ratios.costs].index(present), [*ratios.costs].index(size)
    return Estimate(
        1 - ratios.costs[size] / ratios.costs[present],
        1 - float(ratios.upper_KK[to, at]),
        1 - 1 / float(ratios.upper_KK[at, to]),
    )


def rule_by_looks(table: PromptTable, question: Question) -> Ruling:
    """Decide at a look at few completions; not where too few prompts carry c1 and c3.

    A set of prompts that are all measured has no others, so few may carry it. What a change
    saves is said with it: runs in which many carry c1 are those that a rare kind has not
    come to yet, and to tell it by these alone would tell too little.
    """
    bound = bound_ratios(table, question.level, looked=True)
    ruling = rule_by_costs(price_sizes(table, question), bound, question)
    if table.size == table.prompts or table.effective_prompts >= CARRIERS_OF_A_BOUND:
        return ruling
    unbound = ruling._replace(at_most=math.inf, at_least=0.0)
    if table.effective_prompts >= LEAST_CARRIERS:
        return unbound
    return unbound._replace(verdict="cannot tell", set_to=question.present, saves=None)


def prompts_needed(
    table: PromptTable, question: Question, bound: Callable[[int], Bound]
) -> int | None:
    """Estimate how many prompts hardly tell yet; None where a million would not tell.

    Half of those that would if costs and spread were as at hand (`stopping/forecasts.csv`).
    """
    prices, prompts = price_sizes(table, question), table.prompts
    more = prompts
    while more < MOST_PROMPTS:
        more += more // 2
        if rule_by_costs(prices, bound(more), question).verdict != "cannot tell":
            return max(more // 2, prompts)
    return None


class Decision(NamedTuple):
    """What a look says."""

    ruling: Ruling  # The verdict on the present size.
    best: Estimate  # G* with its interval.

    @property
    def words(self) -> str:
        """The verdict so far, for a line."""
        ruling = self.ruling
        if ruling.verdict != "cannot tell":
            return f"{ruling.verdict}, G = {ruling.set_to}"
        return f"best group size {with_interval(self.best)}"

    @property
    def stop(self) -> bool:
        """Whether the verdict is known."""
        return self.ruling.verdict != "cannot tell"


def decide(table: PromptTable, question: Question) -> Decision:
    """Decide by few completions of three prompts or more whether to stop."""
    best = table.best_group_size(question.level)
    return Decision(rule_by_looks(table, question), best)
