"""Plan a run: measure its first prompts, and extrapolate what the others will cost.

The longest prompt is measured first, then some of median length. They are measured as a run
measures them, and kept in its folder, so that the run resumes from there.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from mse_lab.measurement.looks import FIRST_COMPLETIONS, MOST_SCORED, looks
from mse_lab.measurement.sample import sample_prompt
from mse_lab.mse.measurement import PromptMeasurement, stack
from mse_lab.probe.streams import stream
from mse_lab.results.analysis import Analysis, analyse_run
from mse_lab.results.extrapolation import (
    Advising,
    Plan,
    costs_of,
    expect_widths,
    extrapolate,
)
from mse_lab.results.tables import describe_prompts
from mse_lab.run.advise import LEAST_PROMPTS, first_prompt
from mse_lab.run.finish import peak_memory_bytes
from mse_lab.run.prepare import RunContext, RunSpec, load
from mse_lab.run.resume import Outcome, begin_or_resume, find_finished, read_shard
from mse_lab.run.run_probe import measure_prompts

# Prompts to measure, and seconds after which no further one is begun: as long as somebody
# watches a terminal.
ENOUGH, TIME_LIMIT = 5, 60.0


def choose(lengths_P: Sequence[int], todo: Sequence[int], seed: int) -> list[int]:
    """Order prompts: the longest first, then by distance to the median length.

    >>> choose([3, 9, 5, 4, 1], [0, 1, 2, 3, 4], seed=0)[:2]
    [1, 3]
    """
    # Equal lengths in random order: neighbours in a file are often alike.
    shuffled, wanted = stream(seed, "plan").permutation(len(lengths_P)), set(todo)
    left = [index for index in shuffled.tolist() if index in wanted]
    longest = max(left, key=lambda index: lengths_P[index], default=None)
    median = np.median(lengths_P)
    distances_P = [abs(length - median) for length in lengths_P]
    return sorted(left, key=lambda index: (index != longest, distances_P[index]))


def _while_in_time(chosen: Sequence[int]) -> Iterator[int]:
    """Yield the first, and more while the next is likely to end within `TIME_LIMIT`."""
    began = time.monotonic()
    for count, index in enumerate(chosen):
        spent = time.monotonic() - began
        if count and spent * (count + 1) / count > TIME_LIMIT:
            return
        yield index


def _analyse(
    context: RunContext, prompts: Sequence[PromptMeasurement]
) -> tuple[Analysis, float]:
    """Analyse measured prompts as a run does; give the seconds that all would take."""
    spec, began = context.spec, time.perf_counter()
    # Estimators that use other prompts need two, so a single prompt is analysed twice.
    some = prompts if len(prompts) > 1 else [*prompts, *prompts]
    unknown = [0.0] * len(some)
    described = describe_prompts([spec.prompts[0]] * len(some), unknown, unknown)
    pools = stack([prompt.arrays for prompt in some])
    result = analyse_run(spec.name, spec.probe, pools, described)
    _ = result.tables, result.warnings
    return result, (time.perf_counter() - began) * len(spec.prompts) / len(some)


def _advising(context: RunContext, index: int) -> Advising | None:
    """Time an advice by a sample of one prompt; None where there can be no advice."""
    subject, prompts = context.subject, len(context.subject.prompts)
    fits = subject.memory.scoring.current.block == subject.probe.largest_group
    if prompts < LEAST_PROMPTS or subject.supplied is not None or not fits:
        return None
    first, *_, last = looks(prompts)
    sampled = sample_prompt(subject, index, range(FIRST_COMPLETIONS), MOST_SCORED).sample
    return Advising(first.drawn, last.drawn, sampled.seconds / FIRST_COMPLETIONS)


def _extrapolate(
    context: RunContext, prompts: Mapping[int, PromptMeasurement], loading: float
) -> Plan:
    probe, subject = context.spec.probe, context.subject
    lengths, memory = [len(tokens) for tokens in subject.tokens], subject.memory
    measured = {index: costs_of(prompt) for index, prompt in prompts.items()}
    costs, factor = extrapolate(lengths, measured)
    analysis, analysing = _analyse(context, list(prompts.values()))
    median = np.median(lengths)
    middle = min(prompts, key=lambda index: abs(lengths[index] - median))
    gpus = [device for device in subject.policy.devices if device.type == "cuda"]
    return Plan(
        probe=context.spec.name,
        prompts=len(lengths),
        completions=len(lengths) * (probe.pool.reference + probe.pool.replicate),
        tokens=costs.tokens,
        seconds={
            "load the model": loading,
            "draw and reward": costs.draw,
            "reference gradients": costs.reference,
            "scores and products": costs.score,
            "checks and records": costs.rest,
            "tables and intervals": analysing,
        },
        disk_bytes=costs.disk,
        peak_memory_bytes=sum(map(torch.cuda.max_memory_allocated, gpus))
        or peak_memory_bytes(),
        budget_bytes=memory.budget,
        block=(memory.scoring.current.block, probe.largest_group),
        factor=factor,
        prompts_measured=len(prompts),
        seconds_measured=sum(costs.seconds for costs in measured.values()),
        half_widths=expect_widths(analysis, len(lengths)),
        level=analysis.level,
        wanted_width=probe.interval.width,
        advising=_advising(context, middle),
        first_prompt=first_prompt(subject),
        warnings=memory.warnings,
    )


def plan_probe(spec: RunSpec, *, fresh: bool = False) -> Plan | Outcome:
    """Measure the first prompts of a probe; extrapolate what all will take.

    The measurements are written to the folder of the results, where the run resumes from
    them; with `fresh` an earlier run there is removed first. Of a run that is finished
    already the outcome is returned. Errors are those of `execute`.
    """
    if outcome := find_finished(spec, fresh=fresh):
        return outcome
    began = time.perf_counter()
    context = load(spec)
    loading = time.perf_counter() - began
    with spec.processes.locked(spec.results.path):
        todo = begin_or_resume(context, fresh=fresh)
        done = len(spec.prompts) - len(todo)
        lengths = [len(tokens) for tokens in context.subject.tokens]
        chosen = choose(lengths, todo, spec.probe.seed)[: max(1, ENOUGH - done)]
        measure_prompts(context, _while_in_time(chosen), done)
        indices = range(len(spec.prompts))
        prompts = {at: prompt for at in indices if (prompt := read_shard(context, at))}
        return _extrapolate(context, prompts, loading)
