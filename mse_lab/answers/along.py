"""Along a training run: what changes from checkpoint to checkpoint, and what to do then.

Prompts are taken as drawn from a distribution, the same at all checkpoints, and differences
are paired by them (`mse/trajectory.py`). Ratios to the oracle are those of Figure 4, for
these prompts, by the law: (A - ||g||^2) / T of vanilla, whatever G, 1 + zeta / (T (G-1)) of
GRPO-type; their differences are paired completion by completion.

For rewards 0 and 1 training to convergence should bring rho down: at a maximum of J of a
log-linear softmax policy E[S (b* - V)] = tr Hess J <= 0. Then vanilla's MSE falls relative
to the oracle's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd

from mse_lab.answers.advice import noise_scale
from mse_lab.answers.alternatives import price_default
from mse_lab.answers.judgement import RESOLUTION, decide
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import Claim, Statement
from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.formatting import with_interval
from mse_lab.mse.budget import Constants
from mse_lab.mse.intervals import LARGEST_LOG, UNKNOWN, Estimate, Statistic
from mse_lab.mse.prompt_samples import mean_over_prompts
from mse_lab.mse.regime import Place, equal_baseline, norm_ratio, places_of
from mse_lab.mse.trajectory import Movement, Trajectory, best_ratio, measure_movement
from mse_lab.mse.verdict import BUDGET
from mse_lab.mse.zero_variance import mean_share, zero_variance_shares
from mse_lab.probe.schema import Pool
from mse_lab.probe.streams import stream
from mse_lab.results.tables import columns_of

STILL = Statement("Along a run (best group size)", "The best group size stays the same.")
RHO_FALLS = Statement(
    "Along a run (rho)", "rho falls: the squared score norm of right over wrong answers."
)
VANILLA_FALLS = Statement(
    "Along a run (vanilla)", "Vanilla's MSE falls relative to the oracle's."
)

# Columns of `along.csv`: the constants by the names that the formulas have for them.
CONSTANTS = ("c1", "c2", "c3", "c_vanilla", "gradient2")

# A factor of G* - 1 that would be seen as a move.
_FACTOR = 1 + RESOLUTION


def sampled_places(run: MeasuredRun) -> Place:
    """Place the aggregate of each sample of prompts, (S,)."""
    moments = run.moments
    parts = (moments.value2_norm2, moments.value_reward_norm2, moments.norm2)
    return places_of(*map(run.population.prompt_samples.means, parts))


def _finite(value: Floats) -> Floats:
    return np.where(np.isfinite(value) & (value > 0), value, math.nan)


def _rho(_: Constants, places: Place) -> Floats:
    return _finite(norm_ratio(places.best_baseline, places.value))


def _over_oracle(run: MeasuredRun, name: str, size: int) -> Statistic:
    return run.law_of(name, size) / run.law_of("oracle", size)


def _log_paired(ratio: Statistic, run: MeasuredRun) -> Statistic:
    """Take the logarithm, paired by completions: their uniforms are the same everywhere."""
    if not ratio.value > 0:
        return Statistic(math.nan, {}, {})
    log = ratio.log()
    [groups], [shifts] = log.groups.values(), log.reference.values()
    return Statistic(
        log.value, {"along": groups}, {run.name: shifts}, log.reference_degrees
    )


def refuse_beforehand(checkpoints: int, size: int, pool: Pool) -> None:
    """Refuse settings that can give no answer, before anything is measured."""
    if checkpoints < 2:
        raise InputError("--checkpoints: a single one; give two, or add --from-start")
    if size > min(pool.reference, pool.replicate):
        raise InputError(
            f"--group-size {size}: more completions than pool.replicate = "
            f"{pool.replicate} or pool.reference = {pool.reference}; raise them"
        )


@dataclass(frozen=True)
class Along:
    """The runs of one probe at the checkpoints of a training run."""

    steps: tuple[int, ...]  # After how many steps each was saved.
    runs: tuple[MeasuredRun, ...]  # Their runs, of the same prompts, three or more.
    group_size: int  # G that the policy was trained with.

    @property
    def level(self) -> float:
        """Coverage of the intervals."""
        return self.runs[0].level

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1, so that there is a rho."""
        return all(run.binary for run in self.runs)

    @cached_property
    def trajectory(self) -> Trajectory:
        """The populations of all checkpoints."""
        return Trajectory.of([run.population for run in self.runs])

    @cached_property
    def best(self) -> Estimate:
        """G* for all of the run; unknown where no reward varies."""
        if all(run.population.constants.c3.item() <= 0 for run in self.runs):
            return UNKNOWN
        return self.trajectory.best_group_size(self.level)

    @cached_property
    def values(self) -> list[Statistic]:
        """J, the mean value, at each checkpoint."""
        return [mean_over_prompts(run.pools.value_P) for run in self.runs]

    @cached_property
    def log_rhos(self) -> list[Statistic]:
        """Log rho of the aggregate; none unless rewards are 0 and 1."""
        runs = self.runs if self.binary else ()
        return [
            run.population.statistic(lambda *at: np.log(_rho(*at)), sampled_places(run))
            for run in runs
        ]

    @cached_property
    def log_vanillas(self) -> list[Statistic]:
        """Log of vanilla's MSE over the oracle's, for these prompts."""
        size = self.group_size
        return [_log_paired(_over_oracle(run, "vanilla", size), run) for run in self.runs]

    @cached_property
    def log_bests(self) -> list[Statistic]:
        """Log (G* - 1)."""
        return [
            run.population.statistic(lambda one: np.log(_finite(best_ratio([one])) ** -0.5))
            for run in self.runs
        ]

    def factor(self, logs: Sequence[Statistic], later: int, earlier: int) -> Estimate:
        """Estimate the paired ratio of a figure at two checkpoints by its logarithms."""
        difference, most = logs[later] - logs[earlier], math.inf
        if "prompts" in difference.groups:
            runs = self.runs[later], self.runs[earlier]
            most = min(run.population.effective_prompts for run in runs)
        ends = difference.interval(self.level, most_degrees=most)
        return Estimate(*(math.exp(min(end, LARGEST_LOG)) for end in ends))

    @cached_property
    def movement(self) -> Movement:
        """Test whether G* moves: Cochran's Q on log(G* - 1)."""
        return measure_movement(self.log_bests, self.trajectory.effective_prompts)

    def _judge_best(self) -> Claim:
        """Judge that G* stays the same, by the test and by factors between checkpoints."""
        pairs = combinations(range(len(self.runs)), 2)
        factors = [self.factor(self.log_bests, *pair) for pair in pairs]
        near = all(ratio.low > 1 / _FACTOR and ratio.high < _FACTOR for ratio in factors)
        q, differences, p_value = self.movement
        change = self.factor(self.log_bests, -1, 0)
        ratio = f"G* - 1, last over first: {with_interval(change)}"
        measured = f"Q = {q:.3g} of {differences}; {ratio}"
        reason = f"Holds if no two checkpoints are a factor of {_FACTOR} apart in G* - 1."
        if not math.isfinite(p_value):
            measured = "G* is not known at every checkpoint"
            reason = "At one c1 is not significantly positive, or prompts are too few."
        verdict = decide(p_value < 1 - self.level, near)
        return STILL.about(*self.runs).claim(measured, verdict, reason, change, p_value)

    def _judge_fall(
        self, statement: Statement, logs: Sequence[Statistic], prompts: str
    ) -> Claim:
        change = self.factor(logs, -1, 0)
        return statement.about(*self.runs).claim(
            f"last over first: {with_interval(change)}",
            decide(change.low > 1, change.high < 1),
            f"By the interval of the paired ratio, for {prompts}.",
            change,
        )

    @cached_property
    def claims(self) -> list[Claim]:
        """Judge what is claimed of training runs."""
        vanilla = self._judge_fall(VANILLA_FALLS, self.log_vanillas, "these prompts")
        if not self.binary:
            return [self._judge_best(), vanilla]
        rho = self._judge_fall(RHO_FALLS, self.log_rhos, "prompts drawn at random")
        return [self._judge_best(), rho, vanilla]

    def _zero_variance(self, run: MeasuredRun) -> tuple[Estimate, Estimate]:
        """Share of the replicates' zero-variance groups; and mean[V^G + (1-V)^G]."""
        pools, size = run.pools, self.group_size
        groups = pools.rewards_PN.shape[1] // size
        rewards = pools.rewards_PN[:, : groups * size].reshape(pools.prompts, groups, size)
        measured_P = (rewards == rewards[..., :1]).all(-1).mean(-1)
        law_P = zero_variance_shares(pools.reference_rewards_PN, size)
        rng = stream(run.seed, "along", "zero-variance groups")
        return (
            mean_share(measured_P, self.level, run.resamples, rng),
            mean_share(law_P, self.level, run.resamples, rng),
        )

    def _figures(self, run: MeasuredRun) -> dict[str, Estimate]:
        level, size = self.level, self.group_size

        def of_place(figure: Callable[..., Floats]) -> Estimate:
            if not self.binary:
                return UNKNOWN
            return run.population.estimate_positive(figure, level, sampled_places(run))

        measured, law = self._zero_variance(run)
        return {
            **{
                name: _over_oracle(run, name, size).interval(level, positive=True)
                for name in ("vanilla", "grpo")
            },
            "trainers_default": price_default(run, size, BUDGET),
            "noise_scale": noise_scale(run, size),
            "equal_rewards": measured,
            "equal_rewards_law": law,
            "rho": of_place(_rho),
            # At which vanilla and the oracle have one MSE, (1-V)/(2-V).
            "rho_line": of_place(
                lambda _, at: _finite(norm_ratio(equal_baseline(at.value), at.value))
            ),
        }

    def _changes(self, index: int) -> dict[str, Estimate]:
        tracks = {"best": self.log_bests, "vanilla": self.log_vanillas}
        if self.binary:
            tracks["rho"] = self.log_rhos
        gain = (self.values[index] - self.values[0]).interval(self.level)
        factors = {
            f"{name}_change": self.factor(logs, index, 0) for name, logs in tracks.items()
        }
        return {"value_gain": gain, **factors}

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows of `along.csv`, one a checkpoint; unknown numbers are empty."""
        rows = []
        for index, (step, run) in enumerate(zip(self.steps, self.runs, strict=True)):
            estimates = {
                "value": self.values[index].interval(self.level),
                "best_group_size": run.best_group_size,
                **self._figures(run),
                **{name: run.constants[name.removeprefix("c_")] for name in CONSTANTS},
                **self._changes(index),
            }
            row = {"step": step, "probe": run.name, "group_size": self.group_size}
            for name, estimate in estimates.items():
                row |= columns_of(name, estimate)
            rows.append(row)
        return pd.DataFrame(rows)
