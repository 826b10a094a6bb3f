"""The summary of a log: every number of the screen, computed when it is first asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.errors import one_line, shorten
from mse_lab.logs import values
from mse_lab.logs.find_logs import LeftOut
from mse_lab.logs.forecast import Forecast, forecast, mean_share
from mse_lab.logs.groups import RewardGroups
from mse_lab.logs.read_logs import Log
from mse_lab.mse.cluster_means import cluster_mean
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.mismatch import Mismatch, measure_mismatch

# The seed of the draws of intervals: a log has the same summary every time.
SEED = 0

FEW = 20  # A note says so where there are fewer prompts than this.


@dataclass(frozen=True)
class Summary:
    """What a log says."""

    log: Log  # The log.
    groups: RewardGroups  # Its completions in groups.
    level: float = 0.95  # Coverage of the intervals.
    # Limits of the checks in `verdicts.py` that take the place of the usual ones.
    limits: Mapping[str, float] = field(default_factory=dict)

    def _share(self, shares: Floats | Flags, prompts: Ints) -> Estimate:
        """Average shares of these prompts."""
        return mean_share(shares, prompts, self.level, SEED)

    def _share_of_groups(self, flags_K: Flags) -> Estimate:
        """Share of the groups of two completions or more that are flagged."""
        several_K = self.groups.size_K > 1
        return self._share(flags_K[several_K], self.groups.prompt_K[several_K])

    def _share_of_prompts(self, name: str) -> Estimate:
        """Share of the prompts whose completions are all of a kind."""
        all_P = self.prompts[name].to_numpy() == 1
        return self._share(all_P, np.arange(len(all_P)))

    @cached_property
    def grouped(self) -> bool:
        """Whether there are groups of two completions or more."""
        return bool((self.groups.size_K > 1).any())

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """A row for each prompt."""
        return values.tabulate_prompts(self.groups)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """A row for each training step."""
        return values.steps_table(self.groups)

    @cached_property
    def bands(self) -> dict[str, int]:
        """Prompts by their value."""
        return values.bands_of(self.groups, self.prompts)

    @cached_property
    def mean_reward(self) -> Estimate:
        """The mean reward over completions; the interval is over prompts."""
        return self.mean_reward_where(np.ones(len(self.groups.reward_N), dtype=bool))

    @cached_property
    def never_right(self) -> Estimate:
        """Share of prompts without a right completion."""
        return self._share_of_prompts("wrong")

    @cached_property
    def always_right(self) -> Estimate:
        """Share of prompts with right completions only."""
        return self._share_of_prompts("right")

    @cached_property
    def spread(self) -> Estimate:
        """How far the values of prompts lie apart."""
        return values.spread_of_values(self.groups, self.level)

    @cached_property
    def drift(self) -> Estimate:
        """How much the mean reward changed along the steps."""
        return values.drift_of_values(self.groups, self.level)

    @cached_property
    def zero_variance(self) -> Estimate:
        """Share of groups whose rewards are all equal."""
        return self._share_of_groups(self.groups.zero_variance_K)

    @cached_property
    def all_right(self) -> Estimate:
        """Share of groups whose completions are all right."""
        return self._share_of_groups(self.groups.right_K == self.groups.size_K)

    @cached_property
    def all_wrong(self) -> Estimate:
        """Share of groups whose completions are all wrong."""
        return self._share_of_groups(self.groups.wrong_K == self.groups.size_K)

    @cached_property
    def forecasts(self) -> list[Forecast]:
        """Zero-variance groups at other group sizes."""
        return forecast(self.groups, self.level, SEED)

    @cached_property
    def groups_per_step(self) -> int | None:
        """The commonest number of groups of a step; None without steps."""
        counts = self.steps["groups"]
        return int(counts.mode().max()) if len(counts) else None

    @cached_property
    def wasted(self) -> int:
        """Completions in groups whose rewards are all equal."""
        several = self.groups.zero_variance_K & (self.groups.size_K > 1)
        return int(self.groups.size_K[several].sum())

    @cached_property
    def lengths(self) -> tuple[str, Floats] | None:
        """Lengths of the completions (N,), and their unit: tokens or else characters."""
        for unit, name in (("tokens", "length"), ("characters", "characters")):
            if (lengths_N := self.groups.known(name)) is not None:
                return unit, lengths_N
        return None

    @cached_property
    def truncated_N(self) -> Flags | None:
        """Whether the limit cut each completion; None where the log does not tell."""
        truncated_N = self.groups.known("truncated")
        return None if truncated_N is None else truncated_N == 1

    @cached_property
    def truncated(self) -> Estimate | None:
        """Share of completions that were cut."""
        cut_N = self.truncated_N
        return None if cut_N is None else self._share(cut_N, self.groups.prompt_N)

    @cached_property
    def duplicates(self) -> Estimate | None:
        """Share of completions that equal an earlier one of their group.

        None where the log gives neither text nor tokens of some completion.
        """
        content_N = self.groups.known("content")
        if content_N is None or not self.grouped:
            return None
        pairs = pd.DataFrame({"group": self.groups.group_N, "content": content_N})
        return self._share(pairs.duplicated().to_numpy(), self.groups.prompt_N)

    @cached_property
    def mismatch(self) -> Mismatch | None:
        """How far the engine that drew is from the model.

        None where the log lacks one of both log-probabilities.
        """
        table = self.groups.completions
        if "tokens" not in table or not (table["tokens"] > 0).any():
            return None
        names = ("log_ratio", "kl", "tokens")
        known = table.loc[table["tokens"] > 0, [*names]]
        log_ratio_N, kl_N, tokens_N = (known[name].to_numpy() for name in names)
        return measure_mismatch(log_ratio_N, kl_N, int(tokens_N.sum()))

    def mean_where(self, values_N: Floats, flags_N: Flags) -> Estimate:
        """Average a number over some completions; the interval is over prompts."""
        if not flags_N.any():
            return UNKNOWN
        return cluster_mean(values_N[flags_N], self.groups.prompt_N[flags_N], self.level)

    def mean_reward_where(self, flags_N: Flags) -> Estimate:
        """Average the reward of some completions; of rewards from 0 to 1 as a share.

        So its interval has a width where these are few and all wrong.
        """
        least, most = self.groups.range
        if least < 0 or most > 1 or not flags_N.any():
            return self.mean_where(self.groups.reward_N, flags_N)
        rewards, prompts = self.groups.reward_N[flags_N], self.groups.prompt_N[flags_N]
        return self._share(rewards, prompts)

    @cached_property
    def left_out(self) -> list[LeftOut]:
        """What was left out of the log."""
        return [*self.log.source.left_out, *self.groups.left_out]

    @cached_property
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
        sizes = np.unique(self.groups.size_K)
        if len(sizes) > 1:
            yield f"Groups have {sizes[0]:,} to {sizes[-1]:,} completions with a reward."
        if len(self.groups.rewards) > 1:
            summands = " + ".join(map(one_line, self.groups.rewards))
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
            "groups": len(groups.size_K),
            "completions": len(groups.reward_N),
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
