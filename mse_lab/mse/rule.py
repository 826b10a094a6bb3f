"""The rule: keep the training as it is, change it, or neither is shown.

A ladder has a rung for every group size with the loss in use and, where the trainer takes
one, for baselines that are fitted at some sizes (`baseline.py`). The regret of a rung is
what it costs beyond the best one: steps of a training at N completions each, or completions
where N is unknown (`loss.py`). With bounds of all ratios of costs,
cost(i) / cost(j) <= upper[i, j] (`bounds.py`),

    keep    the regret of yours is at most `tolerance`: max_j upper[yours, j] - 1
    change  it is more: cost(yours) / cost(j) >= 1 / upper[j, yours] > 1 + tolerance for
            some j. Set is the cheapest rung i, where its own regret is at most `tolerance`
            or it is such a j; else the cheapest i with upper[i, yours] < 1

The costs are those of the user's loss where its law gives them, else GRPO-type's. Where the
law gives those of some sizes alone, GRPO-type's verdict must hold for the loss among these;
where it gives none, rewards must have two values. Drawing ends with the verdict.

Where N is unknown a verdict must hold at every N. Costs of unbiased losses then differ in
the same order, but a biased loss that is the best for small N may point away from g, which
counts most for large N; the ratio of two costs is monotone in N. So it is held against
N = `ANY_BATCH`, too, and else the batch is asked for.

A kind of prompts of which the sample may hold none is beyond any bound: a verdict is said
of prompts unlike which there is at most one in `unless_one_in`.
`tests/README.md` has how often a verdict is false.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple, Self, TypeVar

from mse_lab.arrays import Floats
from mse_lab.config.schema import EstimatorEntry
from mse_lab.mse.baseline import Baseline, fit_at
from mse_lab.mse.bounds import Bound, Priced, Rung, bound_ratios, fewest_seen, rarest_seen
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import (
    Aim,
    find_aims,
    is_bracketed,
    is_constant,
    is_unbiased,
    up_to_a_factor,
)
from mse_lab.mse.prompt_table import PromptTable

T = TypeVar("T", bound=Any)

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

ANY_BATCH = 1e9  # Completions a step beyond which no noise is left.


class Question(NamedTuple):
    """What is asked: whether the group size of a training is all right."""

    estimator: EstimatorEntry | None  # None for one that is not ours.
    present: int
    completions: float = 0.0  # N, completions a step; 0 where it is unknown.
    tolerance: float = TOLERANCE  # The regret that is all right.
    level: float = 0.95
    # Sizes that the trainer takes at its batch; none for powers of two.
    allowed: tuple[int, ...] = ()
    fitted: tuple[int, ...] = ()  # Sizes at which it takes a fitted baseline.

    @property
    def settable(self) -> set[int]:
        """The sizes that may be named, the present one among them."""
        return {*(self.allowed or (1, *SIZES)), self.present}

    @property
    def compared(self) -> list[int]:
        """The sizes whose costs are compared: those that a batch allows, if it is known."""
        return sorted({*(self.allowed or (*COMPARED_SIZES, *SIZES)), self.present})


class Ratios(NamedTuple):
    """Costs of K rungs, and upper bounds of each over each other one."""

    costs: dict[Rung, float]
    upper_KK: Floats
    of_loss: bool  # Whether they are those of the user's loss, else GRPO-type's.
    knows_gradient: bool = True  # Whether ||g||^2 is, or does not matter.
    baselines: Mapping[int, Baseline] = {}  # Those of the fitted rungs, by size.

    @property
    def regrets(self) -> dict[Rung, float]:
        """Upper bound of each rung's regret."""
        return dict(zip(self.costs, (self.upper_KK.max(1) - 1).tolist(), strict=True))

    def upper(self, top: Rung, base: Rung) -> float:
        """Upper bound of the cost of one rung over that of another."""
        at = [*self.costs].index
        return float(self.upper_KK[at(top), at(base)])

    def saving(self, rung: Rung, yours: Rung) -> Estimate:
        """Share of the cost that a rung saves over yours, with its bounds."""
        value = 1 - self.costs[rung] / self.costs[yours]
        ends = 1 - self.upper(rung, yours), 1 - 1 / self.upper(yours, rung)
        return Estimate(value if self.knows_gradient else math.nan, *ends)


class Ruling(NamedTuple):
    """A verdict, with what it rests on."""

    verdict: Verdict
    set_to: int  # The size to set; the present one unless the verdict is `change`.
    # Share of the cost that setting it saves; None: unknown. Its value is NaN where
    # ||g||^2 is not known, which tells how far a change shows at N.
    saves: Estimate | None
    at_most: float  # The regret of yours is at most that; infinite where unknown.
    at_least: float  # And at least that.
    of_loss: bool  # Whether the costs are those of the user's loss, else GRPO-type's.
    best: int  # The size of least cost by the loss in use, whether or not that is shown.
    baseline: Baseline | None = None  # What to set beside the size: None for your own loss.
    # It holds unless one prompt in so many is unlike these; None if all are measured.
    unless_one_in: int | None = None
    asks_batch: bool = False  # Whether it would be a verdict, were N known to be small.

    @property
    def told(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != "cannot tell"

    def untold(self, present: int) -> Self:
        """Take the verdict back."""
        return self._replace(
            verdict="cannot tell",
            set_to=present,
            saves=None,
            baseline=None,
            unless_one_in=None,
        )


def cheapest(costs: Mapping[T, float], settable: Collection[T]) -> T:
    """Name the cheapest that a trainer would be set to; of all where there is none.

    >>> cheapest({4: 1.2, 8: 1.02, 11: 1.0, 16: 1.04}, {4, 8, 16})
    8
    """
    usable = {one: cost for one, cost in costs.items() if one in settable} or costs
    return min(usable, key=lambda one: (usable[one], one))


class Prices(NamedTuple):
    """What rungs cost by the user's loss, and by GRPO-type."""

    loss: Priced | None  # None where it is not known.
    grpo: Priced
    # Whether GRPO-type's verdict is said of a loss that is not known. With rewards of more
    # than two values a loss that divides by their spread has another best size.
    stands_in: bool
    knows_gradient: bool = True
    baselines: Mapping[int, Baseline] = {}

    def ratios(self, bound: Bound, *, of_loss: bool) -> Ratios:
        """Bound the ratios of costs by the user's loss, or by GRPO-type."""
        priced = self.loss if of_loss and self.loss else self.grpo
        costs = {rung: float(cost[0]) for rung, cost in priced.costs.items()}
        known = self.knows_gradient, self.baselines
        return Ratios(costs, bound(priced), of_loss, *known)


def price_rungs(table: PromptTable, question: Question) -> Prices:
    """Price the rungs that are compared: of the user's loss, if known, and of GRPO-type.

    A biased loss is priced only where ||g||^2 is significantly positive. Where the loss is
    GRPO-type up to a factor, both are one.
    """
    entry, present, completions = question.estimator, question.present, question.completions
    baselines = {size: fit_at(table, size) for size in question.fitted}
    fitted = {Rung(size, fitted=True): one.aim for size, one in baselines.items()}

    def price(aims: Mapping[int, Aim], at: float) -> dict[Rung, Floats]:
        rungs = {Rung(size): aim for size, aim in aims.items()} | fitted
        return {rung: aim.cost(at) for rung, aim in rungs.items()}

    aims = find_aims(table, "grpo", question.compared)
    limit = price(aims, 0.0) if fitted and completions else None
    other = Priced(price(aims, completions), completions, linear=True, limit=limit)
    knows_gradient = table.knows_gradient(question.level)
    known = not completions or knows_gradient
    if entry is not None and up_to_a_factor(entry) == "grpo":
        return Prices(other, other, True, known, baselines)
    loss = None
    if entry is not None and (is_unbiased(entry) or knows_gradient):
        most = max(MOST_WITH_LAW, 2 * present)
        sizes = {size for size in question.compared if size <= most}
        sizes |= {1} if is_constant(entry) else set()
        aims = find_aims(table, entry, sorted(sizes))
        if present in aims:
            loss = Priced(price(aims, completions), completions, linear=False)
    return Prices(loss, other, table.values is not None, known, baselines)


def rule_by_costs(prices: Prices, bound: Bound, question: Question) -> Ruling:
    """Decide by the costs of the user's loss, or of GRPO-type where those are not known.

    They are known where the best size is shown to be among those that have a law. Where it
    is not, GRPO-type's verdict stands only if the loss agrees at the sizes that it has.
    """
    loss, grpo, stands_in = prices.loss, prices.grpo, prices.stands_in
    stands = {"keep": stands_in, "change": stands_in, "cannot tell": True}
    if loss is not None:
        ratios = prices.ratios(bound, of_loss=True)
        ruling = rule(ratios, question)
        sizes, largest = loss.sizes, max(grpo.sizes)
        upper_KK = ratios.upper_KK[: len(sizes), : len(sizes)]
        if loss is grpo or ruling.baseline or is_bracketed(sizes, upper_KK, largest):
            return ruling
        stands["keep"] = ruling.at_most <= question.tolerance
        stands["change"] = ruling.at_least > question.tolerance
    ruling = rule(prices.ratios(bound, of_loss=False), question)
    if stands[ruling.verdict]:
        return ruling
    return ruling.untold(question.present)._replace(at_least=0.0)


def rule(ratios: Ratios, question: Question) -> Ruling:
    """Decide by bounds of the costs' ratios."""
    yours, tolerance, regrets = Rung(question.present), question.tolerance, ratios.regrets
    settable = {one for one in regrets if one.fitted or one[0] in question.settable}
    sizes = {rung: cost for rung, cost in ratios.costs.items() if not rung.fitted}
    best = cheapest(sizes, settable).group_size
    ruling = Ruling(
        "cannot tell", question.present, None, math.inf, 0.0, ratios.of_loss, best
    )
    if yours not in regrets:
        return ruling
    savings = {rung: 1 / ratios.upper(rung, yours) - 1 for rung in regrets}
    at_most, at_least = regrets[yours], max(0.0, *savings.values())
    ruling = ruling._replace(at_most=at_most, at_least=at_least)
    if at_most <= tolerance:
        return ruling._replace(verdict="keep", saves=Estimate(0.0, 0.0, 0.0))
    rung = cheapest(ratios.costs, settable)
    if regrets[rung] > tolerance and savings[rung] <= tolerance:
        shown = {one: cost for one, cost in ratios.costs.items() if savings[one] > 0}
        rung = cheapest(shown or {yours: 1.0}, settable)
    if at_least <= tolerance or rung == yours:
        return ruling
    return ruling._replace(
        verdict="change",
        set_to=rung.group_size,
        saves=ratios.saving(rung, yours),
        baseline=ratios.baselines[rung.group_size] if rung.fitted else None,
    )


def rule_by_table(table: PromptTable, bound: Bound, question: Question) -> Ruling:
    """Decide by the prompts at hand; where N is unknown, for every N."""
    prices = price_rungs(table, question)
    ruling = rule_by_costs(prices, bound, question)
    biased = question.estimator is not None and not is_unbiased(question.estimator)
    if question.completions or not ruling.told or ruling.baseline:
        return ruling
    if not (ruling.of_loss and biased):
        return ruling
    large = price_rungs(table, question._replace(completions=ANY_BATCH))
    ratios, yours = large.ratios(bound, of_loss=True), Rung(question.present)
    upper = ratios.upper(Rung(ruling.set_to), yours)
    regret = ratios.regrets[yours] if ruling.verdict == "keep" else upper - 1
    if regret <= question.tolerance:
        return ruling
    return ruling.untold(question.present)._replace(asks_batch=True)


def rule_by_looks(table: PromptTable, question: Question, *, looked: bool = True) -> Ruling:
    """Decide, and say how rare a kind of prompts may be that these do not show.

    Few completions are looked at until a bound decides, a finished run once. At a look
    there is no verdict where too few prompts carry c1 and c3. A set of prompts that are all
    measured has no others, so few may carry it. What a change saves is said with it: runs
    in which many carry c1 are those that a rare kind has not come to yet, and to tell it by
    these alone would tell too little.
    """
    bound = bound_ratios(table, question.level, looked=looked)
    ruling = rule_by_table(table, bound, question)
    if table.size == table.prompts:
        return ruling
    if ruling.told:
        one_in = rarest_seen(table.prompts, looked=looked)
        if table.size < math.inf:
            one_in = int(table.size) // fewest_seen(table.prompts, int(table.size))
        ruling = ruling._replace(unless_one_in=one_in)
    if not looked or table.effective_prompts >= CARRIERS_OF_A_BOUND:
        return ruling
    unbound = ruling._replace(at_most=math.inf, at_least=0.0)
    if table.effective_prompts >= LEAST_CARRIERS:
        return unbound
    return unbound.untold(question.present)


def prompts_needed(table: PromptTable, question: Question) -> int | None:
    """Estimate how many prompts hardly tell yet; None where a million would not tell.

    Half of those that would if costs and spread were as at hand (`stopping/forecasts.csv`).
    """
    prompts = more = table.prompts
    while more < MOST_PROMPTS:
        more += more // 2
        bound = bound_ratios(table, question.level, looked=True, prompts=more)
        if rule_by_table(table, bound, question).told:
            return max(more // 2, prompts)
    return None
