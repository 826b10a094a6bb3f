"""What a finished run has to say: MSEs, laws and moments of the aggregate, with draws."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mse_lab.claims.drawn import Drawn
from mse_lab.config import InputError
from mse_lab.curves import Curve, Curves
from mse_lab.estimators import find_estimator, find_estimators
from mse_lab.finished import read_finished
from mse_lab.groups import less_best_constant
from mse_lab.intervals import draw_resamples
from mse_lab.laws import Moments
from mse_lab.pools import Floats, Pools
from mse_lab.replicates import Key, measure_errors
from mse_lab.streams import stream

ESTIMATORS = ("vanilla", "grpo", "oracle", "best-constant")

# Of runs with norms only.
UNTESTED = "Without replicates nothing can tell the law from the truth."
NOTHING = "no replicates"
BY_LAW = "By the law alone, for there are no replicates."

# Fewer leave the ends of a 95% interval to some twenty draws.
LEAST_DRAWS = 2000


@dataclass(frozen=True)
class Evidence:
    """One run.

    The aggregate is the mean over the P prompts of the run, each with a group of its own.
    Random draws depend on the seed and the run's name, so that runs are drawn apart.

    Attributes:
        name: The probe's name.
        pools: Its pools.
        group_sizes: Its group sizes of two or more, increasing.
        level: Coverage of intervals; tests are at alpha = 1 - level.
        seed: Its seed.
        draws: Bootstrap draws B.
    """

    name: str
    pools: Pools
    group_sizes: tuple[int, ...]
    level: float = 0.95
    seed: int = 0
    draws: int = LEAST_DRAWS

    @property
    def alpha(self) -> float:
        """Level of the tests."""
        return 1 - self.level

    def stream(self, *purpose: str) -> np.random.Generator:
        """Open a random stream of this run."""
        return stream(self.seed, "claims", self.name, *purpose)

    @cached_property
    def curves(self) -> Curves:
        """The aggregate's curves; all numbers share its draws."""
        return Curves(self.pools, draw_resamples(self.pools, self.draws, self.stream()))

    @cached_property
    def errors(self) -> dict[Key, Floats]:
        """Squared errors (P, R) of the four estimators that the paper is about."""
        estimators = find_estimators(ESTIMATORS, self.group_sizes, self.pools.prompts)
        return measure_errors(self.pools, estimators, self.group_sizes)

    def _drawn(self, value: float, draws_B: Floats) -> Drawn:
        return Drawn(value, draws_B, self.pools.prompts * (self.pools.blocks - 1))

    def _of(self, curve: Curve | None) -> Drawn:
        assert curve is not None  # all four are unbiased and have a law
        return self._drawn(float(curve.point.mse), curve.draws.mse)

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        return self.curves.moments

    @cached_property
    def has_replicates(self) -> bool:
        """Whether the run has more than norms."""
        return self.pools.has_cross_products

    @property
    def source(self) -> str:
        """What `mse` comes from."""
        return "replicates" if self.has_replicates else "law"

    def explain(self, reason: str) -> str:
        """Add to a reason what it rests on, where that is not the replicates."""
        return reason if self.has_replicates else f"{reason} {BY_LAW}"

    @cached_property
    def _measured(self) -> dict[Key, Drawn]:
        return {
            key: self._of(
                self.curves.measured(
                    find_estimator(key.estimator), key.group_size, errors_PR
                )
            )
            for key, errors_PR in self.errors.items()
        }

    def mse(self, estimator: str, group_size: int) -> Drawn:
        """Measure the aggregate's MSE by the replicates; by the law where there are none.

        The best constant is learnt from other completions than it serves, either way.
        """
        if self.has_replicates:
            return self._measured[Key(estimator, group_size)]
        if estimator == "best-constant":
            vanilla = find_estimator("vanilla")
            return self._of(self._less_best_constant.by_law(vanilla, group_size))
        return self.law(estimator, group_size)

    @cached_property
    def _less_best_constant(self) -> Curves:
        return Curves(less_best_constant(self.pools), self.curves.resamples)

    def law(self, estimator: str, group_size: int) -> Drawn:
        """Evaluate the aggregate's exact law; at G = 1 its limit of G x MSE."""
        return self._of(self.curves.by_law(find_estimator(estimator), group_size))

    @property
    def oracle_trace(self) -> Drawn:
        """The aggregate's T: (1/P^2) sum_x T(x)."""
        return self.law("oracle", 1)

    @property
    def vanilla_trace(self) -> Drawn:
        """The aggregate's A - ||g||^2, G x MSE of vanilla."""
        return self.law("vanilla", 1)

    @cached_property
    def zeta(self) -> Drawn:
        """The aggregate's zeta, the sum over prompts / P^2."""
        scale = self.pools.prompts**2
        draws = self.curves.drawn_moments.zeta.sum(-1) / scale
        return self._drawn(float(self.moments.zeta.sum() / scale), draws)

    def describe_baselines(self) -> str:
        """Say where the best baseline lies, means over prompts weighted by E||W||^2."""
        best, value = (
            self._weighted(one) for one in (self.moments.best_baseline, self.moments.value)
        )
        return f"the best baseline b* is {best:.2f} and the value V {value:.2f}"

    def describe_distances(self) -> str:
        """Say how far b* is from 0 and from V, weighted alike."""
        best, value = self.moments.best_baseline, self.moments.value
        zero, oracle = (np.sqrt(self._weighted(one**2)) for one in (best, value - best))
        return f"b* is {zero:.2f} from vanilla's 0 and {oracle:.2f} from the oracle's V"

    def _weighted(self, values_P: Floats) -> float:
        """Mean over prompts weighted by E||W||^2, which is how the aggregate sees them."""
        weights_P = self.moments.norm2
        total = float(weights_P.sum())
        return float(values_P @ weights_P) / total if total > 0 else float("nan")


def read_evidence(folder: Path) -> Evidence:
    """Read a finished run.

    Raises:
        InputError: The folder holds tables only, or nothing; or no group of two.
    """
    name, probe, pools, _ = read_finished(folder)
    sizes = tuple(size for size in probe.group_sizes if size > 1)
    if not sizes:
        raise InputError(
            f"{folder}: group_sizes = {probe.group_sizes}: claims need one of two or more"
        )
    return Evidence(
        name=name,
        pools=pools,
        group_sizes=sizes,
        level=probe.interval.level,
        seed=probe.seed,
        draws=max(probe.interval.resamples, LEAST_DRAWS),
    )
