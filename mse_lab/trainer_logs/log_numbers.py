"""The numbers of a log, each computed when it is first asked for."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.trainer_logs import lengths, values
from mse_lab.trainer_logs.forecast import Forecast, forecast, share_of_groups
from mse_lab.trainer_logs.groups import Flags, Groups
from mse_lab.trainer_logs.log_ratios import LogRatios, log_ratios
from mse_lab.trainer_logs.read_logs import Log
from mse_lab.trainer_logs.reward_functions import (
    RewardFunction,
    advantage_fits,
    reward_functions,
)

# Of the draws that intervals are made of: a log has the same summary every time.
SEED = 0


@dataclass(frozen=True)
class LogNumbers:
    """What a log says.

    Attributes:
        log: The log.
        groups: Its completions in groups.
        level: Coverage of intervals.
        max_tokens: The limit on a completion's length, where it is given.
        seconds_per_completion: Device's seconds that one costs, where it is given.
    """

    log: Log
    groups: Groups
    level: float = 0.95
    max_tokens: int | None = None
    seconds_per_completion: float | None = None

    def _share_of_groups(self, flags_K: Flags) -> Estimate:
        """Share of groups of two completions or more."""
        shares_K = np.where(self.groups.size_K > 1, flags_K.astype(float), np.nan)
        return share_of_groups(shares_K, self.groups, self.level, self._rng())

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(SEED)

    @cached_property
    def grouped(self) -> bool:
        """Whether there are groups of two completions or more."""
        return bool((self.groups.size_K > 1).any())

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """A row for each prompt."""
        return values.prompts_table(self.groups)

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
        """The mean reward."""
        return values.mean_reward(self.groups, self.level, self._rng())

    @cached_property
    def never_right(self) -> Estimate:
        """Share of prompts without a right completion."""
        wrong = self.prompts["wrong"] == 1
        return values.share_of_prompts(wrong, self.level, self._rng())

    @cached_property
    def always_right(self) -> Estimate:
        """Share of prompts with right completions only."""
        right = self.prompts["right"] == 1
        return values.share_of_prompts(right, self.level, self._rng())

    @cached_property
    def spread(self) -> values.Spread:
        """How far values lie apart."""
        return values.spread_of_values(self.groups, self.level)

    @cached_property
    def drift(self) -> Estimate:
        """How the mean reward changed along the steps."""
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
        """Groups of a step, commonly; None without steps."""
        counts = self.steps["groups"]
        return int(counts.mode().max()) if len(counts) else None

    @cached_property
    def wasted(self) -> int:
        """Completions in groups whose rewards are all equal."""
        several = self.groups.zero_variance_K & (self.groups.size_K > 1)
        return int(self.groups.size_K[several].sum())

    @cached_property
    def lengths(self) -> tuple[str, Floats] | None:
        """Lengths of the completions, and their unit."""
        return lengths.lengths_of(self.groups.columns)

    @cached_property
    def truncated_N(self) -> Flags | None:
        """Whether each completion was cut."""
        return lengths.truncated_of(self.groups.columns, self.max_tokens)

    @cached_property
    def truncated(self) -> Estimate | None:
        """Share of completions that were cut."""
        if self.truncated_N is None:
            return None
        return lengths.share_of_completions(
            self.truncated_N, self.groups, self.level, self._rng()
        )

    @cached_property
    def duplicates(self) -> Estimate | None:
        """Share of completions that equal an earlier one of their group."""
        again_N = lengths.duplicates_of(self.groups)
        if again_N is None or not self.grouped:
            return None
        return lengths.share_of_completions(again_N, self.groups, self.level, self._rng())

    @cached_property
    def reward_functions(self) -> list[RewardFunction]:
        """The reward functions; empty where there is one."""
        functions = reward_functions(self.groups)
        return functions if len(functions) > 1 else []

    @cached_property
    def advantage_fits(self) -> bool | None:
        """Whether the trainer's advantages go along with the rewards."""
        return advantage_fits(self.groups)

    @cached_property
    def log_ratios(self) -> LogRatios | None:
        """How far the trainer's probabilities are from the sampler's."""
        return log_ratios(self.log.exports or self.groups.columns)

    def mean_where(self, values_N: Floats, flags_N: Flags) -> Estimate:
        """Average a number over some completions."""
        return lengths.mean_where(values_N, flags_N, self.groups, self.level)

    def difference_where(self, values_N: Floats, flags_N: Flags) -> Estimate:
        """How much larger a number is in some completions."""
        return lengths.difference_where(values_N, flags_N, self.groups, self.level)
