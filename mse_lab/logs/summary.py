"""The summary of a log: every number of the screen."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import one_line, shorten
from mse_lab.logs import values
from mse_lab.logs.find_logs import LeftOut
from mse_lab.logs.forecast import Forecast, forecast, mean_share
from mse_lab.logs.parts import RewardParts, split_reward
from mse_lab.logs.read_logs import Log
from mse_lab.logs.reward_groups import RewardGroups
from mse_lab.mse.cluster_means import cluster_mean
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.mismatch import Mismatch, measure_mismatch

# The seed of the draws of intervals: a log has the same summary every time.
SEED = 0

FEW = 20  # A note says so where there are fewer prompts than this.


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """What a log says; `summarise` makes it."""

    log: Log
    groups: RewardGroups  # Its completions in groups.
    level: float  # Coverage of the intervals, which are over prompts.
    prompts: pd.DataFrame  # A row for each prompt.
    steps: pd.DataFrame  # A row for each training step.
    grouped: bool  # Whether there are groups of two completions or more.
    bands: Mapping[str, int]  # Prompts by their value.
    mean_reward: Estimate  # Over completions.
    never_right: Estimate  # Share of prompts without a right completion.
    always_right: Estimate  # Share of prompts with right completions only.
    spread: Estimate  # How far the values of prompts lie apart.
    drift: Estimate  # How much the mean reward changed along the steps.
    zero_variance: Estimate  # Share of groups whose rewards are all equal.
    all_right: Estimate  # Share of groups whose completions are all right.
    all_wrong: Estimate  # Share of groups whose completions are all wrong.
    wasted: int  # Completions in groups whose rewards are all equal.
    forecasts: list[Forecast]  # Zero-variance groups at other group sizes.
    parts: RewardParts | None  # What each part of the reward contributes.
    groups_per_step: int | None  # The commonest number; None without steps.
    lengths: tuple[str, Floats] | None  # Of completions, (N,): tokens or else characters.
    truncated_N: Flags | None  # Whether the limit cut each completion.
    truncated: Estimate | None  # Share of completions that were cut.
    # Share of completions that equal an earlier one of their group.
    duplicates: Estimate | None
    mismatch: Mismatch | None  # How far the engine that drew is from the model.
    # Limits of the checks in `verdicts.py` that take the place of the usual ones.
    limits: Mapping[str, float] = field(default_factory=dict)

    def mean_where(self, values_N: Floats, flags_N: Flags) -> Estimate:
        """Average a number over some completions; the interval is over prompts."""
        if not flags_N.any():
            return UNKNOWN
        prompt_N = self.groups.completions["prompt"].to_numpy()
        return cluster_mean(values_N[flags_N], prompt_N[flags_N], self.level)

    def mean_reward_where(self, flags_N: Flags) -> Estimate:
        """Average the reward of some completions."""
        return _mean_reward(self.groups, flags_N, self.level)

    @property
    def left_out(self) -> list[LeftOut]:
        """What was left out of the log."""
        return [*self.log.source.left_out, *self.groups.left_out]

    @property
    def notes(self) -> list[str]:
        """What a reader should know about what was read, a sentence each."""
        return [*(one.line() for one in self.left_out), *self._cautions()]

    def _cautions(self) -> Iterator[str]:
        prompts, steps, form = len(self.prompts), len(self.steps), self.log.source.form
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
        if self.groups.summed:
            summands = " + ".join(map(one_line, self.groups.parts))
            weighted = ", by their weights" if form.weights else ""
            yield f"The reward is {shorten(summands, 200)}{weighted}."
        yield from self.groups.cautions
        if form.note:
            yield f"{form.name}: {form.note}."

    def as_dict(self) -> dict[str, Any]:
        """Give all numbers for programs."""
        groups, source = self.groups, self.log.source
        of_groups = ("zero_variance", "all_right", "all_wrong")
        numbers = {
            "source": source.name,
            "form": source.form.name,
            "files": len(source.files),
            "prompts": len(self.prompts),
            "groups": len(groups.groups),
            "completions": len(groups.completions),
            "steps": len(self.steps),
            "group_size": groups.size_in_use,
            "groups_per_step": self.groups_per_step,
            "level": self.level,
            "mean_reward": self.mean_reward.value,
            "mean_reward_interval": self.mean_reward,
            "never_right": self.never_right,
            "always_right": self.always_right,
            "values": self.bands,
            "value_sd": self.spread,
            "drift": self.drift,
            **{name: getattr(self, name) if self.grouped else None for name in of_groups},
            "zero_variance_completions": self.wasted if self.grouped else None,
            "forecast": [one._asdict() for one in self.forecasts],
            **self._optional_numbers(),
            "left_out": [asdict(one) for one in self.left_out],
            "notes": self.notes,
        }
        return {name: _for_json(value) for name, value in numbers.items()}

    def _optional_numbers(self) -> dict[str, Any]:
        """Give the numbers that only some logs have."""
        more: dict[str, Any] = {}
        if self.parts is not None:
            more["parts"] = [one._asdict() for one in self.parts.parts]
        if self.truncated is not None:
            more["truncated"] = self.truncated.value
            more["truncated_interval"] = self.truncated
        if self.lengths is not None:
            unit, lengths_N = self.lengths
            more |= {"mean_length": float(lengths_N.mean()), "length_unit": unit}
        if self.duplicates is not None:
            more["duplicates"] = self.duplicates
        if self.mismatch is not None:
            more["mismatch"] = asdict(self.mismatch)
        return more


def _mean_reward(groups: RewardGroups, flags_N: Flags, level: float) -> Estimate:
    """Average the reward of some completions; of rewards from 0 to 1 as a share.

    So its interval has a width where these are few and all wrong.
    """
    if not flags_N.any():
        return UNKNOWN
    reward_N, prompt_N = (
        groups.completions[name].to_numpy()[flags_N] for name in ("reward", "prompt")
    )
    if groups.range[0] < 0 or groups.range[1] > 1:
        return cluster_mean(reward_N, prompt_N, level)
    return mean_share(reward_N, prompt_N, level, SEED)


def _lengths(groups: RewardGroups) -> tuple[str, Floats] | None:
    for unit, name in (("tokens", "length"), ("characters", "characters")):
        if (lengths_N := groups.known(name)) is not None:
            return unit, lengths_N
    return None


def _mismatch(table: pd.DataFrame) -> Mismatch | None:
    """Compare the engine with the model, where the log has both log-probabilities."""
    if "tokens" not in table or not (table["tokens"] > 0).any():
        return None
    known = table[table["tokens"] > 0]
    ratio_N, kl_N, tokens_N = (known[n].to_numpy() for n in ("log_ratio", "kl", "tokens"))
    return measure_mismatch(ratio_N, kl_N, int(tokens_N.sum()))


def summarise(
    log: Log, groups: RewardGroups, level: float = 0.95, outcome: str | None = None
) -> dict[str, Any]:
    """Compute what a `Summary` holds, by name.

    Args:
        log: The log.
        groups: Its completions in groups.
        level: Coverage of the intervals.
        outcome: The part of the reward that says whether a completion is right.
    """
    table, of_groups = groups.completions, groups.groups
    prompts, steps = values.prompts_table(groups), values.steps_table(groups)
    prompt_N, several_K = table["prompt"].to_numpy(), of_groups["size"].to_numpy() > 1
    grouped, drift = bool(several_K.any()), values.drift_of_values(groups, level)

    def share(flags: Flags | Floats, prompts: Ints) -> Estimate:
        return mean_share(flags, prompts, level, SEED)

    def of_prompts(name: str) -> Estimate:
        return share(prompts[name].to_numpy() == 1, np.arange(len(prompts)))

    def of_several(flags_K: Any) -> Estimate:
        """Share of the groups of two completions or more."""
        if not grouped:
            return UNKNOWN
        prompt_K = of_groups["prompt"].to_numpy()
        return share(np.asarray(flags_K)[several_K], prompt_K[several_K])

    cut_N, content_N = groups.known("truncated"), groups.known("content")
    again_N = table.duplicated(["group", "content"]) if content_N is not None else None
    return {
        "log": log,
        "groups": groups,
        "level": level,
        "prompts": prompts,
        "steps": steps,
        "grouped": grouped,
        "bands": values.bands_of(groups, prompts),
        "mean_reward": _mean_reward(groups, np.ones(len(table), dtype=bool), level),
        "never_right": of_prompts("wrong"),
        "always_right": of_prompts("right"),
        "spread": values.spread_of_values(groups, level, drift),
        "drift": drift,
        "zero_variance": of_several(of_groups["zero_variance"]),
        "all_right": of_several(of_groups["right"] == of_groups["size"]),
        "all_wrong": of_several(of_groups["wrong"] == of_groups["size"]),
        "wasted": int(of_groups["size"][of_groups["zero_variance"] & several_K].sum()),
        "forecasts": forecast(groups, level, SEED),
        "parts": split_reward(groups, outcome, log.source.form.outcome),
        "groups_per_step": int(steps["groups"].mode().max()) if len(steps) else None,
        "lengths": _lengths(groups),
        "truncated_N": None if cut_N is None else cut_N == 1,
        "truncated": None if cut_N is None else share(cut_N == 1, prompt_N),
        "duplicates": (
            share(again_N.to_numpy(), prompt_N) if again_N is not None and grouped else None
        ),
        "mismatch": _mismatch(table),
    }


def _for_json(value: Any) -> Any:
    """Write a value for JSON, which has no NaN and no infinity; an estimate by its ends."""
    if isinstance(value, Estimate):
        return _for_json(value._asdict()) if np.isfinite(value.value) else None
    if isinstance(value, dict):
        return {name: _for_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(_for_json, value)]
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else None
    return value
