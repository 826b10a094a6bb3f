"""The summary of a log: every number of the screen, under its name in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mse_lab.errors import one_line, shorten
from mse_lab.mse.intervals import Estimate
from mse_lab.trainer_logs import values
from mse_lab.trainer_logs.log_numbers import LogNumbers

# Fewer prompts, or steps, than this are said to be few.
FEW = 20


@dataclass(frozen=True)
class Summary(LogNumbers):
    """What a log says, with what a reader should know of it."""

    @cached_property
    def notes(self) -> list[str]:
        """What a reader should know about what was read, a sentence each."""
        return _notes(self)

    def as_dict(self) -> dict[str, Any]:
        """Give all numbers for programs."""
        return _as_dict(self)


def _notes(summary: LogNumbers) -> list[str]:
    source, groups = summary.log.source, summary.groups
    steps = len(summary.steps)
    notes = [
        (source.cut_lines, "{} file(s) end in a line that is not whole: left out."),
        (
            source.copies,
            "{} file(s) repeat the batch of the one before (num_iterations or "
            "steps_per_generation): counted once.",
        ),
        (len(source.unknown), "{} file(s) of no known form: left out."),
        (groups.unscored, "{:,} completions have no reward: left out."),
        (
            groups.drawn_twice,
            "{:,} times a prompt came more than once in a step: cut into groups by order.",
        ),
    ]
    found = [text.format(count) for count, text in notes if count]
    return [*found, *_cautions(summary, steps)]


def _names(summary: LogNumbers) -> str:
    """Name the reward functions."""
    return shorten(one_line(", ".join(summary.groups.columns.rewards)), 200)


def _cautions(summary: LogNumbers, steps: int) -> list[str]:
    prompts, cautions = len(summary.prompts), []
    if prompts < FEW:
        cautions.append(
            f"Few prompts ({prompts}): the intervals say how little is known of others."
        )
    if 0 < steps < values.FEWEST_STEPS:
        cautions.append(f"Few steps ({steps}): a drift would not show.")
    if not summary.grouped:
        cautions.append(
            "One completion a prompt: no groups, so nothing is known of values, of "
            "zero-variance groups, or of other group sizes."
        )
    if summary.advantage_fits is False:
        cautions.append(
            "The trainer's advantages do not follow the sum of "
            f"{_names(summary)}: they may be weighted, or hold "
            "what is no reward; choose with --columns prompt=...,reward=NAME."
        )
    if summary.log.source.form.note:
        cautions.append(f"{summary.log.source.form.name}: {summary.log.source.form.note}.")
    return cautions


def interval(estimate: Estimate | None) -> dict[str, float | None] | None:
    """Write an estimate for JSON, which has no NaN and no infinity."""
    if estimate is None or not np.isfinite(estimate.value):
        return None
    ends = {
        name: float(end) if np.isfinite(end) else None
        for name, end in estimate._asdict().items()
    }
    return ends


def _without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Write numbers that JSON does not have as null."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in values.items()
    }


def _where_known(summary: LogNumbers) -> Mapping[str, Any]:
    """What only some logs tell."""
    more: dict[str, Any] = {}
    if summary.truncated is not None:
        more["truncated"] = summary.truncated.value
        more["truncated_interval"] = interval(summary.truncated)
    known = summary.lengths
    if known is not None:
        more["mean_length"], more["length_unit"] = float(known[1].mean()), known[0]
    if summary.duplicates is not None:
        more["duplicates"] = interval(summary.duplicates)
    if summary.reward_functions:
        more["reward_functions"] = [
            _without_nan(one._asdict()) for one in summary.reward_functions
        ]
    if summary.log_ratios is not None:
        more["log_ratios"] = _without_nan(summary.log_ratios._asdict())
    if summary.seconds_per_completion is not None:
        hours = summary.wasted * summary.seconds_per_completion / 3600
        more["zero_variance_hours"] = hours
    return more


def _as_dict(summary: Summary) -> dict[str, Any]:
    groups, source = summary.groups, summary.log.source
    grouped = summary.grouped
    shares = {
        name: interval(getattr(summary, name)) if grouped else None
        for name in ("zero_variance", "all_right", "all_wrong")
    }
    steps = summary.steps["step"]
    return {
        "source": source.name,
        "form": source.form.name,
        "files": len(source.files),
        "prompts": len(summary.prompts),
        "groups": len(groups.size_K),
        "completions": len(groups.reward_N),
        "steps": len(steps),
        "group_size": groups.commonest_size,
        "groups_per_step": summary.groups_per_step,
        "level": summary.level,
        "mean_reward": summary.mean_reward.value,
        "mean_reward_interval": interval(summary.mean_reward),
        "never_right": interval(summary.never_right),
        "always_right": interval(summary.always_right),
        "values": summary.bands,
        "value_sd": interval(summary.spread.between),
        "drift": interval(summary.drift),
        **shares,
        "zero_variance_completions": summary.wasted if grouped else None,
        "forecast": [
            {
                "group_size": one.group_size,
                "zero_variance": interval(one.zero_variance),
                "model": one.model,
            }
            for one in summary.forecasts
        ],
        **_where_known(summary),
        "notes": summary.notes,
    }
