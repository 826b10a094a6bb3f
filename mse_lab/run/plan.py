"""Plan a run: measure its first two prompts, and extrapolate what the others will cost.

The longest prompt is measured, which takes the most memory, and one of median length. They
are kept in the run's folder, so that the run goes on from there.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from mse_lab.console import show_start
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.run.advise import first_prompt
from mse_lab.run.context import load, measuring
from mse_lab.run.finish import peak_memory_bytes
from mse_lab.run.loop import Store
from mse_lab.run.prepare import RunSpec
from mse_lab.run.run_probe import find_finished, measure_prompts
from mse_lab.run.subject import Subject

ENOUGH = 2  # Prompts that are measured, or were by an earlier start.


class Plan(NamedTuple):
    """What a run will take, besides the prompts that are measured."""

    prompts: int
    prompts_measured: int  # Kept for the run.
    completions: int  # To be drawn yet.
    seconds: float  # To come in one process, if all prompts are as the middle one.
    seconds_high: float  # The same if all are as the slowest.
    peak_memory_bytes: int  # Taken so far; the prompt that takes the most is measured.
    budget_bytes: int  # The memory that the run may take.
    first_prompt: list[str]  # As the model gets it, and rewards; a line each.
    warnings: list[str]


def choose(lengths_P: Sequence[int], todo: Sequence[int]) -> list[int]:
    """Order prompts: the longest, then by distance to the median length.

    >>> choose([3, 9, 5, 4, 1], [0, 1, 2, 3, 4])
    [1, 3, 0, 2, 4]
    """
    longest = max(todo, key=lambda index: lengths_P[index])
    median = np.median([lengths_P[index] for index in todo])
    others = [index for index in todo if index != longest]
    return [longest, *sorted(others, key=lambda at: abs(lengths_P[at] - median))]


def _measure_first(subject: Subject, store: Store[PromptMeasurement]) -> list[int]:
    """Measure prompts until there are enough; return all that are measured."""
    prompts, pool = len(subject.prompts), subject.probe.pool
    done = [index for index in range(prompts) if (index,) in store]
    if (lacking := min(ENOUGH, prompts) - len(done)) <= 0:
        return done
    todo = [index for index in range(prompts) if index not in done]
    chosen = choose([len(tokens) for tokens in subject.tokens], todo)[:lacking]
    each = f"{pool.reference + pool.replicate:,} completions each"
    show_start(f"{subject.name}: measuring {lacking} of {prompts} prompts, {each}")
    measure_prompts(subject, store, chosen)
    return done + chosen


def plan_probe(spec: RunSpec, *, fresh: bool = False) -> Plan | None:
    """Measure two prompts of a probe where they are missing; extrapolate the others.

    With `fresh` an earlier run is removed first. None of a run that is finished already.
    Errors are those of `execute_run`.
    """
    if find_finished(spec, fresh=fresh):
        return None
    began = time.perf_counter()
    context = load(spec)
    loading = time.perf_counter() - began
    subject, prompts, pool = context.subject, len(spec.prompts), spec.probe.pool
    with measuring(context, PromptMeasurement, fresh=fresh) as store:
        done = _measure_first(subject, store)
        seconds = sorted(store[index,].provenance.seconds for index in done)
    left, gpus = prompts - len(seconds), subject.policy.devices
    on_gpus = [torch.cuda.max_memory_allocated(gpu) for gpu in gpus if gpu.type == "cuda"]
    return Plan(
        prompts=prompts,
        prompts_measured=len(seconds),
        completions=left * (pool.reference + pool.replicate),
        seconds=loading + left * seconds[(len(seconds) - 1) // 2],
        seconds_high=loading + left * seconds[-1],
        peak_memory_bytes=sum(on_gpus) or peak_memory_bytes(),
        budget_bytes=subject.memory.budget,
        first_prompt=first_prompt(subject),
        warnings=subject.memory.warnings,
    )
