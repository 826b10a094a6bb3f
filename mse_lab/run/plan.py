"""Plan a run: its first prompts are measured, and the cost of the others is extrapolated.

The longest prompt is measured first, then some of median length, by the code of a run, and
kept in its folder: the run that follows continues from there.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from mse_lab.measurement.subject import Subject
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.policy.policy import Policy
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import stream
from mse_lab.run import plan_text as text
from mse_lab.run.environment import peak_memory_bytes
from mse_lab.run.plan_costs import Costs, Plan, Row, add_up, analyse_few, spread
from mse_lab.run.plan_widths import expect_widths
from mse_lab.run.prepare import RunContext, load, prepare
from mse_lab.run.resume import find_finished, read_shard, take_folder
from mse_lab.run.run_probe import measure_prompts

# Prompts to measure, and seconds after which no further one is begun: as long as somebody
# watches a terminal.
ENOUGH, PATIENCE = 5, 60.0


def choose(lengths_P: Sequence[int], todo: Sequence[int], seed: int) -> list[int]:
    """Order prompts: the longest first, then by distance to the median length.

    >>> choose([3, 9, 5, 4, 1], [0, 1, 2, 3, 4], seed=0)[:2]
    [1, 3]
    """
    # Equal lengths in random order: neighbours in a file are often alike.
    shuffled = stream(seed, "plan").permutation(len(lengths_P)).tolist()
    left = [index for index in shuffled if index in set(todo)]
    longest = max(left, key=lambda index: lengths_P[index], default=None)
    median = np.median(lengths_P)
    return sorted(
        left, key=lambda index: (index != longest, abs(lengths_P[index] - median))
    )


def _while_in_time(chosen: Sequence[int]) -> Iterator[int]:
    """Yield the first, and more while the next is likely to end within `PATIENCE`."""
    times = [time.monotonic()]
    for index in chosen:
        yield index
        times.append(time.monotonic())
        if times[-1] - times[0] + float(np.diff(times).max()) > PATIENCE:
            return


def _peak_memory(policy: Policy, tables: float) -> float:
    """Give the most bytes held on the devices, or on the host with those of the tables."""
    gpus = [device for device in policy.devices if device.type == "cuda"]
    if gpus:
        return sum(map(torch.cuda.max_memory_allocated, gpus))
    return peak_memory_bytes() + tables


def _rows(subject: Subject, costs: Costs, loading: float, tables: float) -> list[Row]:
    pool, count = subject.probe.pool, len(subject.prompts)
    halves, scored = count * pool.reference, count * pool.replicate
    draw = "draw" if subject.supplied is None else "read"
    unscored = costs.tokens - costs.scored
    # Shards, and the pools made of them.
    arrays = costs.vectors + 2 * costs.kept
    rows = [
        Row("load the model", 0, 0, subject.memory.footprint.weights, loading),
        Row(f"{draw} and reward", halves + scored, costs.tokens, None, costs.draw),
        Row("reference gradients", halves, unscored, None, costs.reference),
        Row("scores and products", scored, costs.scored, None, costs.score),
        Row("checks and records", halves + scored, 0, None, costs.rest),
        Row("tables and intervals", 0, 0, arrays, tables),
    ]
    seconds, peak = sum(row.seconds for row in rows), _peak_memory(subject.policy, arrays)
    return [*rows, Row("total", halves + scored, costs.tokens, peak, seconds)]


def _extrapolate(
    context: RunContext, prompts: Mapping[int, PromptMeasurement], loading: float
) -> Plan:
    spec, subject = context.spec, context.subject
    lengths, measured = [len(one) for one in subject.tokens], list(prompts.values())
    seconds = {index: one.provenance.seconds for index, one in prompts.items()}
    (analysis, tables), costs = analyse_few(spec, measured), add_up(lengths, prompts)
    widths = expect_widths(analysis, len(lengths), spec.probe.interval.width)
    *rows, total = _rows(subject, costs, loading, tables)
    return Plan(
        probe=spec.name,
        heading=text.say_what(subject),
        rows=rows,
        total=total,
        factor=spread(lengths, seconds),
        prompts_measured=len(prompts),
        seconds_measured=sum(seconds.values()),
        remarks=[
            f"measured: {len(prompts)} of {len(lengths)} prompts, kept for the run in "
            f"{spec.results.path}",
            text.say_completions(measured, spec.probe.sampling.max_new_tokens),
            text.say_memory(subject),
            text.say_disk(costs),
        ],
        half_widths=widths,
        warnings=text.warn_of_widths(widths),
    )


def plan_probe(
    name: str, probe: Probe, folder: Path, root: Path, *, fresh: bool = False
) -> Plan:
    """Measure the first prompts of a probe; extrapolate what all will take.

    The measurements go to the folder of the results, where the run finds them; `fresh`
    first drops an earlier run there. Raises as `run_probe`.
    """
    spec = prepare(name, probe, folder, root)
    if outcome := find_finished(spec, fresh=fresh):
        repaired = [f"{lost} is made again from pools.npz" for lost in outcome.repaired]
        return Plan(name, heading=[f"finished, nothing to do: {folder}", *repaired])
    began = time.perf_counter()
    context = load(spec)
    loading = time.perf_counter() - began
    with spec.processes.hold(folder):
        todo = take_folder(context, fresh=fresh)
        done = len(spec.prompts) - len(todo)
        order = choose([len(one) for one in context.subject.tokens], todo, probe.seed)
        chosen = order[: max(1, ENOUGH - done)]
        measure_prompts(context, _while_in_time(chosen), done)
        shards = {index: read_shard(context, index) for index in range(len(spec.prompts))}
        prompts = {index: prompt for index, prompt in shards.items() if prompt}
        return _extrapolate(context, prompts, loading)
