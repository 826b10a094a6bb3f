"""The summary of a log: every number of the screen."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats
from mse_lab.logs import values
from mse_lab.logs.parts import RewardParts, split_reward
from mse_lab.logs.reward_groups import RewardGroups
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.mismatch import measure_mismatch

FEW = 20  # A note says so where there are fewer prompts than this.


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """What a log says."""

    groups: RewardGroups  # Its completions in groups.
    level: float  # Coverage of the intervals, which are over prompts.
    prompts: pd.DataFrame  # A row for each prompt.
    steps: pd.DataFrame  # A row for each training step.
    parts: RewardParts | None  # What each part of the reward contributes.
    numbers: Mapping[str, Any]  # By the names of `mse-lab rollouts --json`.
    # Limits of the checks in `verdicts.py` that take the place of the usual ones.
    limits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, groups: RewardGroups, level: float = 0.95, outcome: str | None = None
    ) -> Self:
        """Summarise the completions of a log in groups.

        Args:
            groups: The completions.
            level: Coverage of the intervals.
            outcome: The part of the reward that says whether a completion is right.
        """
        prompts, steps = values.prompts_table(groups), values.steps_table(groups)
        parts = split_reward(groups, outcome)
        numbers = {
            "source": groups.log.name,
            "form": groups.log.form.name,
            "files": len(groups.log.files),
            "prompts": len(prompts),
            "groups": len(groups.groups),
            "completions": len(groups.completions),
            "steps": len(steps),
            "group_size": groups.size_in_use,
            "groups_per_step": int(steps["groups"].mode().max()) if len(steps) else None,
            "level": level,
            **_of_values(groups, prompts, level),
            **_of_groups(groups, level),
            **({"parts": [*parts.parts]} if parts else {}),
            **_of_completions(groups, level),
        }
        return cls(groups, level, prompts, steps, parts, numbers)

    @property
    def grouped(self) -> bool:
        """Whether there are groups of two completions or more."""
        return self.numbers["zero_variance"] is not None

    def mean_where(self, flags_N: Flags, values_N: Floats | None = None) -> Estimate:
        """Average the reward or another number of some completions."""
        return values.mean_where(self.groups, flags_N, self.level, values_N)

    @property
    def notes(self) -> list[str]:
        """What a reader should know about what was read, a sentence each."""
        left_out = (one.line() for one in self.groups.left_out)
        return [*left_out, *self._cautions(), *self.groups.cautions]

    def _cautions(self) -> Iterator[str]:
        prompts, steps = len(self.prompts), len(self.steps)
        if prompts < FEW:
            yield (f"Few prompts ({prompts}): intervals say how little is known of others.")
        if 0 < steps < values.FEWEST_STEPS:
            yield f"Few steps ({steps}): a drift would not show."
        if not self.grouped:
            yield (
                "One completion a prompt: no groups, so nothing is known of values, of "
                "zero-variance groups, or of other group sizes."
            )
        sizes = np.unique(self.groups.groups["size"])
        if len(sizes) > 1:
            yield f"Groups have {sizes[0]:,} to {sizes[-1]:,} completions with a reward."

    def as_dict(self) -> dict[str, Any]:
        """Give all numbers for programs."""
        forecast = [
            {"group_size": size, "zero_variance": share}
            for size, share in self.numbers["forecast"].items()
        ]
        more = {"left_out": [*self.groups.left_out], "notes": self.notes}
        return _for_json({**self.numbers, "forecast": forecast, **more})


def _of_values(groups: RewardGroups, prompts: pd.DataFrame, level: float) -> dict[str, Any]:
    """Say how prompts' mean rewards lie, and how they drift."""
    drift = values.drift_of_values(groups, level)
    mean = values.mean_where(groups, np.ones(len(groups.completions), bool), level)

    def share(name: str) -> Estimate:
        flags_P = prompts[name].to_numpy() == 1
        return values.mean_share(flags_P, np.arange(len(prompts)), level)

    return {
        "mean_reward": mean.value,
        "mean_reward_interval": mean,
        "never_right": share("wrong"),
        "always_right": share("right"),
        "values": values.bands_of(groups, prompts),
        "value_sd": values.spread_of_values(groups, level, drift),
        "drift": drift,
    }


def _of_groups(groups: RewardGroups, level: float) -> dict[str, Any]:
    """Say of the groups of two completions or more which have no variance."""
    table = groups.groups[groups.groups["size"] > 1]
    flags = {
        "zero_variance": table["zero_variance"],
        "all_right": table["right"] == table["size"],
        "all_wrong": table["wrong"] == table["size"],
    }
    prompt_K, known = table["prompt"].to_numpy(), len(table) > 0
    shares = {
        name: values.mean_share(flags_K.to_numpy(), prompt_K, level) if known else None
        for name, flags_K in flags.items()
    }
    wasted = int(table["size"][table["zero_variance"]].sum()) if known else None
    forecast = values.forecast(groups, level)
    return {**shares, "zero_variance_completions": wasted, "forecast": forecast}


def _of_completions(groups: RewardGroups, level: float) -> dict[str, Any]:
    """Give the numbers that only some logs have."""
    table, more = groups.completions, dict[str, Any]()
    prompt_N = table["prompt"].to_numpy()
    if groups.cut_N is not None:
        cut = values.mean_share(groups.cut_N, prompt_N, level)
        more |= {"truncated": cut.value, "truncated_interval": cut}
    if groups.lengths is not None:
        unit, lengths_N = groups.lengths
        more |= {"mean_length": float(lengths_N.mean()), "length_unit": unit}
    if groups.known("content") is not None and groups.groups["size"].max() > 1:
        again_N = table.duplicated(["group", "content"]).to_numpy()
        more["duplicates"] = values.mean_share(again_N, prompt_N, level)
    if "tokens" in table and len(known := table[table["tokens"] > 0]):
        ratio_N, kl_N, tokens_N = known[["log_ratio", "kl", "tokens"]].to_numpy().T
        more["mismatch"] = measure_mismatch(ratio_N, kl_N, int(tokens_N.sum()))
    return more


def _for_json(value: Any) -> Any:
    """Write a value for JSON, which has no NaN and no infinity; an estimate by its ends."""
    if isinstance(value, Estimate):
        return _for_json(value._asdict()) if np.isfinite(value.value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return _for_json(asdict(value))
    if isinstance(value, dict):
        return {name: _for_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(_for_json, value)]
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else None
    return value
