"""A run on the screen: what it will take, and at its end what its completions are like."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from mse_lab.formatting import byte_size, duration, number, share, table, wrap
from mse_lab.mse.mismatch import Mismatch
from mse_lab.mse.replicates import Key
from mse_lab.results.diagnostics import Diagnostics
from mse_lab.results.extrapolation import Plan


def describe_completions(run: Diagnostics) -> list[str]:
    """Describe the rewards and the completions of a run, a line each."""
    mean = number(run.mean_reward)
    rewards = f"mean reward {mean}, all the same on {share(run.one_reward, 3)}"
    if run.never_right is not None and run.always_right is not None:
        never, always = (share(run.never_right, 3), share(run.always_right, 3))
        rewards = f"accuracy {mean}, V = 0 on {never} and V = 1 on {always}"
    ends = ", ".join(
        f"{end_token.text} {share(end_token.share, 3)}" for end_token in run.end_tokens
    )
    lines = [
        f"rewards: {rewards} of {run.prompts} prompts",
        f"completions: {number(run.mean_length)} tokens on average, "
        f"{share(run.truncated, 3)} truncated, {share(run.distinct, 3)} distinct; "
        f"ended by {ends or 'nothing'}",
    ]
    return lines + ([say_mismatch(run.mismatch)] if run.mismatch else [])


def say_mismatch(mismatch: Mismatch) -> str:
    """Say how far the law that drew completions is from the policy's."""
    return (
        f"drawn by an engine: {number(mismatch.kl_per_token, 2)} nats a token from the "
        f"policy (KL); ESS {share(mismatch.effective, 3)} of "
        f"{mismatch.completions:,} completions"
    )


def plan_values(plan: Plan) -> dict[str, object]:
    """Give a plan's content for JSON; an unknown half-width is None."""
    low, high = plan.range
    widths = [
        {**key._asdict(), "half_width": width if math.isfinite(width) else None}
        for key, width in plan.half_widths.items()
    ]
    return {
        **asdict(plan),
        "half_widths": widths,
        "advising": plan.advising and plan.advising._asdict(),
        "seconds_low": low,
        "seconds_high": high,
    }


def _time(plan: Plan) -> Iterator[str]:
    total, (low, high) = sum(plan.seconds.values()), map(duration, plan.range)
    rows = [
        [stage, duration(seconds), f"{seconds / total:.0%}"]
        for stage, seconds in plan.seconds.items()
    ]
    yield from table([*rows, ["total", duration(total), ""]]).splitlines()
    yield (
        f"time: {low} to {high}, of which {duration(plan.seconds_measured)} are spent on "
        f"{plan.prompts_measured} prompts, kept for the run; each of N processes on "
        "devices of their own takes an N-th"
    )


def _memory(plan: Plan) -> Iterator[str]:
    yield (
        f"memory: {byte_size(plan.peak_memory_bytes)} so far, of "
        f"{byte_size(plan.budget_bytes)}; on the disk: at most {byte_size(plan.disk_bytes)}"
    )
    yield from (f"warning: {text}" for text in plan.warnings)
    block, group = plan.block
    if block < group:
        yield (
            f"warning: norms only: a block of {group} does not fit, only {block} at a "
            "time; no replicates, the laws alone; raise model.memory, or use fewer "
            "parameters or a smaller largest group size"
        )


def _widths(plan: Plan) -> Iterator[str]:
    yield (
        f"intervals: half-width of the {100 * plan.level:g}% intervals, relative to the "
        "MSE, if all prompts are like those measured"
    )
    names, sizes = (
        list(dict.fromkeys(part)) for part in zip(*plan.half_widths, strict=True)
    )
    rows = []
    for name in names:
        widths = (plan.half_widths.get(Key(name, size), math.nan) for size in sizes)
        cells = (share(width) if math.isfinite(width) else "?" for width in widths)
        rows.append([name, *cells])
    yield from table(rows, ["", *(f"G = {size}" for size in sizes)]).splitlines()
    keys = plan.half_widths.items()
    known = [(width, key) for key, width in keys if math.isfinite(width)]
    width, (name, size) = max(known, default=(0.0, ("", 0)))
    if width > plan.wanted_width:
        growth = (width / plan.wanted_width) ** 2
        yield (
            f"warning: interval.width = {plan.wanted_width:g} is wanted; {name} at "
            f"G = {size} will have about {share(width)}: use "
            f"{math.ceil(plan.prompts * growth)} prompts, or raise pool.reference and "
            f"pool.replicate by a factor of {growth:.2g}"
        )


def _advising(plan: Plan) -> Iterator[str]:
    if advising := plan.advising:
        first, most = (
            f"{count:,} completions, {duration(count * advising.seconds_each)}"
            for count in (advising.first, advising.most)
        )
        yield (
            f"advise instead: {first}, for the first look; {most}, for the last; by one "
            "prompt, on one process"
        )


def finished_text(name: str, folder: Path, repaired: Sequence[str]) -> str:
    """Say that nothing is to be measured, and which lost tables a run makes again."""
    lines = [f"{lost} is made again from pools.npz" for lost in repaired]
    return "\n".join([f"{name}: finished, nothing to do: {folder}", *lines])


def plan_text(plan: Plan) -> str:
    """Say the plan in words, for a terminal."""
    heading = (
        f"{plan.probe}: {plan.prompts} prompts, {plan.completions:,} completions, "
        f"{round(plan.tokens):,} tokens"
    )
    lines = [
        heading,
        *plan.first_prompt,
        *_time(plan),
        *_memory(plan),
        *_widths(plan),
        *_advising(plan),
    ]
    return "\n".join(wrap(line, indent=2) for line in lines)
