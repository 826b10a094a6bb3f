"""Remarks: where a plan's numbers come from, memory, disk, and what should be changed."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from mse_lab.policy.policy import Policy
from mse_lab.probe.schema import Probe
from mse_lab.results.records import Record
from mse_lab.run.environment import device_model
from mse_lab.run.memory import Memory, scoring_bytes
from mse_lab.run.plan_finish import Disk
from mse_lab.run.plan_repeats import DISTINCT, Sample
from mse_lab.run.plan_trial import Trial
from mse_lab.run.plan_widths import Widths
from mse_lab.run.plan_words import BYTES, duration, percent, scaled
from mse_lab.scores.block import Scoring


def heading(
    name: str, probe: Probe, policy: Policy, tokens: Sequence[Sequence[int]]
) -> list[str]:
    """Say what is measured, and on what."""
    lengths, size = [len(one) for one in tokens], probe.pool
    cores = torch.get_num_threads()
    threads = f", {cores} thread{'s'[: cores > 1]}" if policy.device.type == "cpu" else ""
    return [
        f"{name}: {len(lengths)} prompts of {min(lengths)} to {max(lengths)} tokens, "
        f"{size.reference:,} + {size.replicate:,} completions each; "
        f"{policy.size:,} parameters count",
        f"on {device_model(policy.device)}{threads}, {probe.model.dtype}",
    ]


def say_trial(
    trial: Trial, samples: Sequence[Sample], group: int, longest: int, at_most: float
) -> list[str]:
    """Say what the trial was, and what it knows of the completions' lengths.

    Args:
        trial: The trial.
        samples: The completions that it has met, prompt by prompt.
        group: Completions that the run scores together.
        longest: Tokens at which the run cuts completions.
        at_most: Seconds of the run if all were so long.
    """
    sizes, prompts = trial.sizes, len(trial.largest)
    block = f"blocks of {sizes.block}"
    if sizes.block < group:
        block += f" instead of {group}"
    if not trial.whole:
        block += ", the rest computed from operations"
    lengths = np.concatenate([one.met.lengths_N for one in samples])
    cut = 1 - np.concatenate([one.met.ended_N for one in samples]).mean()
    lines = [
        f"trial: {duration(trial.seconds)}, {prompts} prompt{'s'[: prompts > 1]}; up to "
        f"{sizes.reference:,} completions for a reference and {block}",
        f"lengths: {lengths.mean():.3g} tokens on average of {len(lengths):,} completions "
        f"of the trial, {percent(cut)} cut at {sizes.positions}; if all ran to {longest}, "
        f"{duration(at_most)} in all",
    ]
    if sizes.positions < longest:
        lines.append(
            f"  the trial would have taken too long at {longest} tokens; what it cut is "
            "taken to be so long"
        )
    return lines


def say_repeats(samples: Sequence[Sample], probe: Probe) -> list[str]:
    """Say how many of the completions are distinct, if some are not."""
    half, block = (
        float(np.mean([one.distinct(count) for one in samples])) / count
        for count in (probe.pool.reference // 2, probe.largest_group)
    )
    if half >= DISTINCT:
        return []
    return [
        f"repeats: {percent(half)} of a half's completions are distinct, {percent(block)} "
        "of a block's; nothing is computed twice"
    ]


def _bytes_of(memory: Memory, how: Scoring) -> int:
    one = memory.footprint
    return one.weights + one.gradient + scoring_bytes(one, how)


def budget_for(size: float) -> str:
    """Write a budget that holds so many bytes, rounded up, as a setting.

    >>> budget_for(71.21e9), budget_for(9.5e6)
    ('model.memory=71.3GB', 'model.memory=10MB')
    """
    if size < 1e9:
        return f"model.memory={math.ceil(size / 1e6)}MB"
    return f"model.memory={math.ceil(size / 1e8) / 10:g}GB"


def _say_scoring(memory: Memory, group: int) -> str:
    """Say how a block is scored, and what memory would change it."""
    how, ways = memory.scoring.current, memory.scoring.ways
    sliced = ", the logits in slices of the vocabulary" if how.sliced else ""
    best = budget_for(_bytes_of(memory, ways[0]))
    if how.block < group:
        least = min(_bytes_of(memory, way) for way in ways if way.block == group)
        return (
            f"norms only: a block of {group} does not fit, only {how.block} at a time; no "
            f"replicates, the laws alone; {budget_for(least)} would give them, or fewer "
            "parameters, or a smaller largest group size"
        )
    if how.layer is not None:
        return (
            f"a block of {group} is scored layer by layer, each run once more for "
            f"{how.layer} completions at a time{sliced}; {best} would keep all activations"
        )
    better = f"; {best} would keep them whole" if sliced else ""
    return f"a block of {group} is scored at once, all activations kept{sliced}{better}"


def say_memory(memory: Memory, probe: Probe, policy: Policy) -> list[str]:
    """Say how much is done at once, within which budget."""
    on_gpu = policy.device.type == "cuda"
    default = "85% of the GPU's" if on_gpu else "half of this machine's"
    source = "model.memory" if probe.model.memory is not None else default
    lines = [
        f"memory: {scaled(memory.budget, BYTES)} may be taken ({source}); "
        + _say_scoring(memory, probe.largest_group)
    ]
    at_once = memory.drawing.current, memory.reference.current
    if min(at_once) < probe.pool.reference:
        lines.append(
            f"  {at_once[0]:,} completions are drawn at once, {at_once[1]:,} are in one "
            "pass of the reference"
        )
    return lines


def say_disk(disk: Disk) -> str:
    """Say what the run takes on disk."""
    return (
        f"disk: {scaled(disk.kept, BYTES)} of results, {scaled(disk.running, BYTES)} more "
        "while it runs"
    )


def say_state(record: Record, probe: Probe, prompts: int) -> list[str]:
    """Say what the folder of the results holds."""
    if not record.is_begun():
        return []
    if record.differences(probe):
        return [
            f"{record.folder} belongs to another configuration: run will ask for --fresh, "
            "or another --out"
        ]
    if lost := record.lost():
        return [f"{record.folder}: run makes {', '.join(lost)} again from pools.npz"]
    if record.is_complete():
        finished = f"{record.folder} is finished: run leaves it as it is"
        return [record.damage() or finished]
    done = record.finished_prompts()
    if done:
        return [f"{record.folder}: {done} of {prompts} prompts are measured already"]
    return []


def warn_of_widths(widths: Widths) -> list[str]:
    """Say which interval will be too wide, and what would help."""
    if widths.suffice:
        return []
    width, name, group = widths.widest
    return [
        f"interval.width = {widths.wanted:g} is wanted; {name} at G = {group} will have "
        f"about {percent(width)}: use {', or '.join(widths.remedies)}"
    ]
