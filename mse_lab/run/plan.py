"""Plan a probe: its first prompts are measured, and what the others take is foretold.

The longest prompt is measured first, then some of median length, by the very code of a run,
and kept in its folder: nothing of it is wasted, the run that follows goes on from there.
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

# Prompts that tell what the others take, and seconds after which none is begun any more:
# as long as somebody will look at a terminal.
ENOUGH, PATIENCE = 5, 60.0


def choose(lengths_P: Sequence[int], todo: Sequence[int], seed: int) -> list[int]:
    """Order prompts: the longest, then by how near they are to the median length.

    >>> choose([3, 9, 5, 4, 1], [0, 1, 2, 3, 4], seed=0)[:2]
    [1, 3]
    """
    # Among equals any comes first: neighbours in a file are often alike.
    shuffled = stream(seed, "plan").permutation(len(lengths_P)).tolist()
    left, middle = [place for place in shuffled if place in set(todo)], np.median(lengths_P)
    longest = max(left, key=lambda place: lengths_P[place], default=None)
    left.sort(key=lambda place: abs(lengths_P[place] - middle))
    return sorted(left, key=lambda place: place != longest)


def _patiently(chosen: Sequence[int]) -> Iterator[int]:
    """Yield one, and more while the next one is likely to be done in time."""
    times = [time.monotonic()]
    for index in chosen:
        yield index
        times.append(time.monotonic())
        if times[-1] - times[0] + float(np.diff(times).max()) > PATIENCE:
            return


def _peak_memory(policy: Policy, tables: float) -> float:
    """Most bytes held on the devices, or in the host with what the tables will take."""
    on_gpu = [one for one in policy.devices if one.type == "cuda"]
    if on_gpu:
        return sum(torch.cuda.max_memory_allocated(one) for one in on_gpu)
    return peak_memory_bytes() + tables


def _rows(subject: Subject, costs: Costs, loading: float, tables: float) -> list[Row]:
    pool, count = subject.probe.pool, len(subject.prompts)
    halves, scored = count * pool.reference, count * pool.replicate
    draw = "draw" if subject.supplied is None else "read"
    of_halves = costs.tokens - costs.scored
    # Shards, and the pools that are made of them.
    together = costs.vectors + 2 * costs.records
    rows = [
        Row("load the model", 0, 0, subject.memory.footprint.weights, loading),
        Row(f"{draw} and reward", halves + scored, costs.tokens, None, costs.draw),
        Row("reference gradients", halves, of_halves, None, costs.reference),
        Row("scores and products", scored, costs.scored, None, costs.score),
        Row("checks and records", halves + scored, 0, None, costs.rest),
        Row("tables and intervals", 0, 0, together, tables),
    ]
    seconds, peak = sum(row.seconds for row in rows), _peak_memory(subject.policy, together)
    return [*rows, Row("total", halves + scored, costs.tokens, peak, seconds)]


def _foretell(
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
    """Measure the first prompts of a probe; say what all will take. Refuses as `run_probe`.

    What is measured goes to the folder of the results, for the run to find; with `fresh`,
    what the folder holds of an earlier run is dropped.
    """
    spec = prepare(name, probe, folder, root)
    if found := find_finished(spec, fresh=fresh):
        repaired = [f"{lost} is made again from pools.npz" for lost in found.repaired]
        return Plan(name, heading=[f"finished, nothing to do: {folder}", *repaired])
    began = time.perf_counter()
    context = load(spec)
    loading = time.perf_counter() - began
    with spec.processes.hold(folder):
        todo = take_folder(context, fresh=fresh)
        known = len(spec.prompts) - len(todo)
        order = choose([len(one) for one in context.subject.tokens], todo, probe.seed)
        chosen = order[: max(1, ENOUGH - known)]
        measure_prompts(context, _patiently(chosen), known)
        kept = {index: read_shard(context, index) for index in range(len(spec.prompts))}
        prompts = {index: prompt for index, prompt in kept.items() if prompt}
        return _foretell(context, prompts, loading)
