"""The plan in words: a table and remarks for the terminal, or JSON."""

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch

from mse_lab.formatting import byte_size, duration, share, table
from mse_lab.measurement.memory import scoring_bytes
from mse_lab.measurement.subject import Subject
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.run.environment import device_model
from mse_lab.run.plan_costs import Costs, Plan, Row
from mse_lab.run.plan_widths import Widths

# Of the terminal.
COLUMNS = 80


def plan_json(plans: Sequence[Plan]) -> str:
    """Write plans as JSON, a list; a number that is not known is null."""
    content = [
        asdict(plan) | dict(zip(("seconds_low", "seconds_high"), plan.range, strict=True))
        for plan in plans
    ]
    known = json.loads(json.dumps(content), parse_constant=lambda _: None)
    return json.dumps(known, indent=2, ensure_ascii=False)


def say_what(subject: Subject) -> list[str]:
    """Say what is measured, and on what."""
    lengths, pool = [len(one) for one in subject.tokens], subject.probe.pool
    cores, device = torch.get_num_threads(), subject.policy.device
    threads = f", {cores} thread{'s'[: cores > 1]}" if device.type == "cpu" else ""
    return [
        f"{len(lengths)} prompts of {min(lengths)} to {max(lengths)} tokens, "
        f"{pool.reference:,} + {pool.replicate:,} completions each; "
        f"{subject.policy.size:,} parameters count",
        f"on {device_model(device)}{threads}, {subject.probe.model.dtype}",
    ]


def say_completions(prompts: Sequence[PromptMeasurement], limit: int) -> str:
    """Say what the completions measured are like, which are cut at a limit."""
    summaries = [one.completions for one in prompts]
    length, cut, distinct = np.mean(
        [(one.mean_length, one.truncated, one.distinct) for one in summaries], 0
    )
    return (
        f"completions: {length:.3g} tokens on average, {share(cut)} cut at {limit}; "
        f"{share(distinct)} of a prompt's are distinct, and nothing is computed twice"
    )


def say_memory(subject: Subject) -> str:
    """Say how a block is scored within which budget, and what memory would change it."""
    memory, group = subject.memory, subject.probe.largest_group
    one = memory.footprint
    how, ways = memory.scoring.current, memory.scoring.ways
    takes = [
        f"model.memory={math.ceil(size / 1e6)}MB"
        for size in sorted(
            one.weights + one.gradient + scoring_bytes(one, way)
            for way in ways
            if way.block == group
        )
    ]
    said = f"memory: {byte_size(memory.budget)} may be taken; "
    if how.block < group:
        return said + (
            f"norms only: a block of {group} does not fit, only {how.block} at a time; no "
            f"replicates, the laws alone; {takes[0]} would give them, or fewer parameters, "
            "or a smaller largest group size"
        )
    said += f"a block of {group} is scored at once"
    if how.layer is not None:
        said += f", each layer once more for {how.layer} completions at a time"
    said += ", the logits in slices of the vocabulary" * how.sliced
    return said + f"; {takes[-1]} would keep all activations" * (how != ways[0])


def say_disk(costs: Costs) -> str:
    """Say what the run takes on disk."""
    more = byte_size(costs.vectors + costs.kept)
    return f"disk: {byte_size(costs.kept)} of results at most, {more} more while it runs"


def warn_of_widths(widths: Widths) -> list[str]:
    """Say which interval will be too wide, and what would help."""
    if not widths.remedies:
        return []
    width, name, group = widths.widest
    return [
        f"interval.width = {widths.wanted:g} is wanted; {name} at G = {group} will have "
        f"about {share(width)}: use {', or '.join(widths.remedies)}"
    ]


def _cells(row: Row, whole: float) -> list[str]:
    return [
        row.stage,
        f"{row.completions:,}" if row.completions else "",
        f"{round(row.tokens):,}" if row.tokens else "",
        byte_size(row.memory) if row.memory else "",
        duration(row.seconds),
        f"{row.seconds / whole:.0%}",
    ]


def stage_table(plan: Plan) -> str:
    """Lay the stages out, the total below a rule."""
    heads = ["", "completions", "tokens", "memory", "time", "share"]
    rows = [_cells(row, plan.total.seconds) for row in (*plan.rows, plan.total)]
    head, *stages, total = table(rows, heads).splitlines()
    rule = "-" * max(map(len, (head, *stages)))
    return "\n".join([head, rule, *stages, rule, total])


def _say_widths(widths: Widths) -> list[str]:
    known = math.isfinite(widths.factor)
    off = f"within a factor of {widths.factor:.2g}" if known else "perhaps far off"
    heads = ["", *(f"G = {group}" for group in widths.group_sizes)]
    rows = [[f"  {name}", *map(_share, row)] for name, row in widths.mse.items()]
    laws = ", ".join(f"{name} {_share(width)}" for name, width in widths.law.items())
    return [
        f"intervals: half-width of the {100 * widths.level:g}% intervals, relative to the "
        f"MSE, estimated from the prompts measured, {off}",
        *(table(rows, heads).splitlines() if rows else []),
        *([f"  by the exact law, at any G: {laws}"] if laws else []),
    ]


def _share(width: float) -> str:
    return share(width) if math.isfinite(width) else "?"


def plan_text(plan: Plan) -> str:
    """Say the plan in words, for a terminal."""
    what, *lines = plan.heading
    lines.insert(0, f"{plan.probe}: {what}")
    if plan.half_widths is not None:
        low, high = map(duration, plan.range)
        lines += [
            "",
            *stage_table(plan).splitlines(),
            "",
            f"time: within a factor of {plan.factor:.3g}, {low} to {high}, of which "
            f"{duration(plan.seconds_measured)} are spent; each of N processes on devices "
            "of their own takes an N-th, but for the first row and the last",
            *plan.remarks,
            *_say_widths(plan.half_widths),
            *(f"warning: {warning}" for warning in plan.warnings),
        ]
    wrap = textwrap.TextWrapper(COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(map(wrap.fill, lines))
