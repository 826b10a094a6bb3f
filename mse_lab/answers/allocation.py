"""Allocation: how many rollouts each prompt of a run should get, and what that saves.

A rule plans the sizes on all completions of the run. What it saves is measured on
completions that its plan has not seen (`mse_lab.mse.allocation`): the MSE over that of
GRPO-type with one G for all prompts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mse_lab.answers.advice import advise
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.errors import InputError
from mse_lab.mse.allocation import (
    FILTERED,
    RULES,
    UNIFORM,
    Sizes,
    dropped_bias2,
    is_outside,
    judge_rules,
    measure_ratios,
)
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.regret import LARGEST


@dataclass(frozen=True)
class Allocation:
    """A budget shared out among the prompts of a run by several rules."""

    name: str  # The run's.
    held: bool  # Whether its built-in checks hold.
    level: float
    budget: int
    prompts: tuple[str, ...]  # Their ids.
    values: tuple[float, ...]  # V of each.
    sizes: Mapping[str, Sizes]  # Rule -> G_x of each prompt.
    # Rule -> MSE over that of `uniform`, the interval over prompts.
    ratios: Mapping[str, Estimate]
    outside: int  # Prompts that an accuracy filter, for rewards 0 and 1, leaves out.
    bias: float  # The squared bias that leaving them out brings, over the MSE of `uniform`.


def _check_budget(run: MeasuredRun, budget: int) -> None:
    prompts = run.pools.prompts
    if prompts < 2:
        raise InputError("one prompt: nothing to allocate; raise prompts.limit")
    if not 2 * prompts <= budget <= LARGEST * prompts:
        raise InputError(
            f"--budget {budget}: give from {2 * prompts} to {LARGEST * prompts} "
            f"completions, 2 to {LARGEST} for each of {prompts} prompts"
        )


def allocate(run: MeasuredRun, budget: int | None = None) -> Allocation:
    """Share a budget of N completions out among two prompts or more.

    By default it is the recommended G for each prompt.
    """
    pools, moments, binary = run.pools, run.moments, run.binary
    budget = advise(run).recommended * pools.prompts if budget is None else budget
    _check_budget(run, budget)
    if not (pools.reward_variance_P > 0).any():
        raise InputError("the rewards of a prompt are all equal: nothing to allocate by")
    outside = is_outside(moments.value) & binary
    # An accuracy is the value of rewards 0 and 1 alone.
    rules = {name: rule for name, rule in RULES.items() if binary or name != FILTERED}
    judged = judge_rules(pools, budget, rules)
    error = judged[UNIFORM].value / pools.prompts
    return Allocation(
        name=run.name,
        held=run.held,
        level=run.level,
        budget=budget,
        prompts=tuple(map(str, run.described["prompt"])),
        values=tuple(moments.value.tolist()),
        sizes={name: rule.sizes(moments, budget) for name, rule in rules.items()},
        ratios=measure_ratios(judged, run.level),
        outside=int(outside.sum()),
        bias=dropped_bias2(pools, outside) / error if error > 0 else np.nan,
    )
