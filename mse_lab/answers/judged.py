"""What is judged by a measurement: the group size of a training."""

from functools import cached_property
from typing import NamedTuple

from mse_lab.answers.trainer_settings import name_own
from mse_lab.arrays import Floats
from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.moments import Moments
from mse_lab.mse.own_loss import Bound
from mse_lab.mse.regime import Regime, find_regime
from mse_lab.mse.regret import TOLERANCE
from mse_lab.mse.verdict import (
    Needed,
    Priced,
    Question,
    Ruling,
    find_ratios,
    price_sizes,
    prompts_needed,
    rule,
)
from mse_lab.probe.training import DEFAULT, Setting


class UserSetting(NamedTuple):
    """What the verdict is about: the user's own training."""

    trainer: str  # `trl`, `verl` or `openrlhf`.
    group_size: int
    estimator: str  # The name of the estimator that its settings compute, or `unknown`.
    named: str  # The settings that say so, under the trainer's names.
    given: bool  # Whether any were given; else they are TRL's defaults.
    uncounted: tuple[str, ...]  # Settings that change the gradient, not allowed for here.
    completions_per_step: int | None = None  # N; None where it is not known.

    @classmethod
    def of(cls, setting: Setting) -> "UserSetting":
        """Put the estimator's name in its place."""
        fields = {name: getattr(setting, name) for name in cls._fields}
        return cls(**fields | {"estimator": name_own(setting.estimator)})


class Judged:
    """The verdict on the group size in use, by prompts that were measured."""

    level: float  # Confidence of what is said.
    tolerance: float = TOLERANCE  # How much more than the best size is all right.
    setting: Setting = DEFAULT  # The training that is judged.

    @property
    def population(self) -> Population:
        """The distribution that the prompts are drawn from."""
        raise NotImplementedError

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        raise NotImplementedError

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        raise NotImplementedError

    @property
    def rho_P(self) -> Floats:
        """Rho of each prompt; NaN where it has no right or no wrong completions."""
        raise NotImplementedError

    @property
    def spent(self) -> tuple[int, float]:
        """Completions that were drawn, and the seconds that they took; 0 if unknown."""
        raise NotImplementedError

    def bound(self, prompts: int | None = None) -> Bound:
        """Bound ratios of costs, by the prompts at hand or as if there were so many."""
        raise NotImplementedError

    @cached_property
    def best_group_size(self) -> Estimate:
        """G*; unknown where no reward varies."""
        return self.population.best_group_size(self.level)

    @cached_property
    def regime(self) -> Regime:
        """On which side of vanilla the prompts are; needs three."""
        most = self.population.effective_prompts
        return find_regime(self.moments, self.rho_P, self.binary, self.level, most)

    @property
    def question(self) -> Question:
        """What is asked of the training."""
        setting = self.setting
        return Question(setting.estimator, setting.group_size, self.tolerance, self.level)

    @cached_property
    def priced(self) -> Priced:
        """Costs of the sizes that are compared."""
        return price_sizes(self.population, self.question, binary=self.binary)

    @cached_property
    def ruling(self) -> Ruling:
        """The verdict on the group size in use."""
        return rule(find_ratios(self.priced, self.bound()), self.question)

    @cached_property
    def needed(self) -> Needed | None:
        """What more than would tell, where the verdict does not."""
        count = self.population.pools.prompts
        if self.ruling.verdict != "cannot tell":
            return None
        prompts = prompts_needed(self.priced, self.question, self.bound, count)
        if prompts is None:
            return None
        (completions, seconds), more = self.spent, prompts / count
        return Needed(prompts, round(more * completions), more * seconds)
