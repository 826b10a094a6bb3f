"""Theorem 7: at a budget N = B G the best group size is free of N.

    N x MSE = c1 G + c2 + c3/(G-1),  least at G* = 1 + sqrt(c3/c1)

The paper's sqrt(c3/c1) is the form for large G. c1 comes from the reference gradients; the
other two terms are measured by the replicates as G times their mean MSE, and the size that
is best by the law is set against every other size of the run. c1 is common to both sides
and held at its estimate; its own interval over prompts is that of G*.

That N does not appear is a property of the formula, once Proposition 3 holds. No curve at a
fixed policy can be evidence for or against it; what could tie the best G to N is training.
"""

from functools import cached_property

import numpy as np

from mse_lab.answers.claim import Claim, Verdict, describe, for_all
from mse_lab.answers.evidence import UNTESTED, Evidence
from mse_lab.answers.judgement import Judgement, judge_not_larger
from mse_lab.mse.budget import Figure, grpo_mse_times_budget
from mse_lab.mse.intervals import UNKNOWN, Estimate, Statistic

BEST = "Theorem 7 (best group size)"
FREE = "Theorem 7 (independent of N)"
SAYS = {
    BEST: "At a fixed budget N = BG the best group size is G* = 1 + sqrt(c3/c1).",
    FREE: "G* does not depend on N.",
}
BUDGETS = (256, 1024, 4096)


class _Budget:
    """The constants of a run, and N x MSE as measured."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.constants = evidence.population.constants

    @property
    def known(self) -> bool:
        """Whether c1 is told from zero, so that G* has an upper bound."""
        return bool(np.isfinite(self.best.high))

    @cached_property
    def best(self) -> Estimate:
        """G*; unknown where no reward varies."""
        if self.constants.pairs.item() <= 0:
            return UNKNOWN
        return self.evidence.population.best_group_size(self.evidence.level)

    def measured(self, size: int) -> Statistic:
        """N x MSE: c1 G, and G times the mean MSE of a prompt by the replicates."""
        noise = self.evidence.mse("grpo", size) * (size * self.evidence.pools.prompts)
        return noise + Statistic(float(self.constants.between.item()) * size, {}, {})

    def best_of_run(self) -> int:
        """Name the run's group size that is best by the law."""
        sizes = np.array(self.evidence.group_sizes)
        law = grpo_mse_times_budget(self.constants, sizes)
        return int(sizes[np.argmin(law)])

    def describe(self) -> str:
        """Write the constants with their intervals."""
        figures: dict[str, Figure] = {
            "c1": lambda one: one.between,
            "c2": lambda one: one.oracle,
            "c3": lambda one: one.pairs,
        }
        population, level = self.evidence.population, self.evidence.level
        return ", ".join(
            f"{head} {describe(population.estimate(figure, level))}"
            for head, figure in figures.items()
        )


def judge_best_group_size(evidence: Evidence) -> list[Claim]:
    """Judge Theorem 7: the measured optimum, then what is to be said of N."""
    if evidence.pools.prompts < 3:
        why = "The spread between prompts needs three prompts or more."
        return [
            Claim(one, (evidence.name,), SAYS[one], "too few prompts", "undecided", why)
            for one in (BEST, FREE)
        ]
    budget = _Budget(evidence)
    # By the law alone the best size by the law would be set against itself.
    rows = _compare_sizes(budget) if evidence.has_replicates else []
    return [_judge_whole(budget, rows), *rows, _judge_independence(budget)]


def _compare_sizes(budget: _Budget) -> list[Claim]:
    best = budget.best_of_run()
    others = [size for size in budget.evidence.group_sizes if size != best]
    pairs = [(budget.measured(best), budget.measured(size)) for size in others]
    judgements = judge_not_larger(pairs, budget.evidence.alpha)
    return [
        _judge_size(budget, size, best, judgement)
        for size, judgement in zip(others, judgements, strict=True)
    ]


def _judge_size(budget: _Budget, size: int, best: int, judgement: Judgement) -> Claim:
    evidence = budget.evidence
    ratio = (budget.measured(size) / budget.measured(best)).interval(
        evidence.level, positive=True
    )
    return Claim(
        BEST,
        (evidence.name,),
        SAYS[BEST],
        f"N x MSE at G = {size} over that at G = {best}: {describe(ratio)}",
        judgement.verdict,
        f"G = {best} is the run's best size by the law; this one must not beat it.",
        group_size=size,
        estimate=ratio,
        p_value=judgement.p_value,
    )


def _judge_whole(budget: _Budget, rows: list[Claim]) -> Claim:
    evidence = budget.evidence
    return Claim(
        BEST,
        (evidence.name,),
        SAYS[BEST],
        f"{budget.describe()}; G* {describe(budget.best)}",
        _verdict(budget, rows),
        _explain(budget),
        estimate=budget.best,
        p_value=max((row.p_value or 0.0 for row in rows), default=None),
    )


def _is_between(budget: _Budget) -> bool:
    """Whether the run has group sizes on both sides of the one that should be best."""
    sizes = budget.evidence.group_sizes
    return min(sizes) < budget.best_of_run() < max(sizes)


def _verdict(budget: _Budget, rows: list[Claim]) -> Verdict:
    """A minimum is seen only where it has both sides, and only where there is one."""
    verdict = for_all(row.verdict for row in rows)
    seen = budget.known and _is_between(budget)
    return verdict if seen or verdict == "fails" else "undecided"


def _explain(budget: _Budget) -> str:
    untested = "" if budget.evidence.has_replicates else UNTESTED
    if not budget.known:
        unbounded = "c1 is not told from zero: G* has no upper bound on this evidence."
        return f"{unbounded} {untested}".rstrip()
    if untested:
        return untested
    paper = np.sqrt(budget.constants.pairs.item() / budget.constants.between.item())
    sizes = ", ".join(map(str, budget.evidence.group_sizes))
    one_sided = (
        ""
        if _is_between(budget)
        else "The run has no group sizes on both sides of it, so no minimum was seen. "
    )
    return one_sided + (
        f"Of G = {sizes} the best is {budget.best_of_run()} by the law and "
        f"{_best_measured(budget, 0)} as measured; the paper's sqrt(c3/c1) is {paper:.2f}."
    )


def _best_measured(budget: _Budget, total: int) -> int:
    """Name the size of least measured MSE among those that divide the budget N."""
    sizes = [size for size in budget.evidence.group_sizes if total % size == 0]
    return min(sizes, key=lambda size: budget.measured(size).value)


def _judge_independence(budget: _Budget) -> Claim:
    """Report the best measured size at each N, and that it could not have differed."""
    sizes = budget.evidence.group_sizes
    totals = [total for total in BUDGETS if any(total % size == 0 for size in sizes)]
    listed = ", ".join(f"{_best_measured(budget, one)} at N = {one}" for one in totals)
    known = budget.known
    found = "best measured G" if budget.evidence.has_replicates else "best G by the law"
    return Claim(
        FREE,
        (budget.evidence.name,),
        SAYS[FREE],
        f"{found} {listed}" if listed else "no group size divides these budgets",
        "holds" if known else "undecided",
        "An identity, not evidence: N x MSE = c1 G + c2 + c3/(G-1) holds no N."
        if known
        else "c1 is not told from zero, so there may be no G* to depend on N.",
        estimate=budget.best,
    )
