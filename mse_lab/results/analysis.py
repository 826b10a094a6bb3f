"""Analysis: from pools to numbers and their tables, without a model, for all commands."""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.config.schema import Probe
from mse_lab.config.training import DEFAULT, Setting, find_setting
from mse_lab.data.streams import stream
from mse_lab.estimators import Estimator, find_estimator, find_estimators
from mse_lab.mse.curves import (
    Curve,
    Curves,
    Point,
    law_curves,
    measure_curves,
    paired_ratio,
)
from mse_lab.mse.intervals import UNKNOWN, Bootstrap, Estimate, Statistic
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.reference_noise import aggregate_norm2_error, draw_reference_noise
from mse_lab.mse.regime import measure_norm_ratios
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.results.checks import Checks
from mse_lab.results.warnings import (
    warn_of_disagreement,
    warn_of_few_degrees,
    warn_of_norms_only,
    warn_of_small_reference,
    warn_of_weak_gradient,
)

BASE = "oracle"

# The estimators of Figure 4, which are also a run's default.
FIGURE_4_ESTIMATORS = ("vanilla", "grpo", BASE)

# What the paper's statements compare; each has a law for any rewards.
COMPARED_ESTIMATORS = ("vanilla", "grpo", "oracle", "best-constant")

NO_POINT = Point(None, None)

Columns = dict[str, str | int | float]


def interval_heads(name: str) -> list[str]:
    """Name the columns of a number and of its interval.

    >>> interval_heads("rho")
    ['rho', 'rho_low', 'rho_high']
    """
    return [name, f"{name}_low", f"{name}_high"]


RHO = tuple(interval_heads("rho"))


def interval_columns(name: str, estimate: Estimate | None) -> dict[str, float]:
    """Spread a number and its interval over three columns, empty without a number."""
    return dict(zip(interval_heads(name), estimate or UNKNOWN, strict=True))


def _interval(curve: Curve | None, part: str, level: float) -> Estimate | None:
    return None if curve is None else curve.statistic(part).interval(level, positive=True)


def _parts(curve: Curve | None, level: float) -> Columns:
    parts: Columns = {
        name: math.nan if curve is None else float(getattr(curve.point, name))
        for name in ("bias2", "variance", "slope", "cosine")
    }
    return parts | interval_columns(
        "scale_free_mse", _interval(curve, "scale_free_mse", level)
    )


def _law_columns(curve: Curve | None, level: float) -> Columns:
    return {
        **interval_columns("law", _interval(curve, "mse", level)),
        **_parts(curve, level),
    }


@dataclass(frozen=True, eq=False)
class Analysis:
    """What pools say about estimators at group sizes."""

    name: str  # The run's name; runs of other names count as independent.
    probe: Probe  # What was measured, and what is asked of it.
    pools: Pools
    # What pools do not know of each prompt: `prompt`, `category`, `mean_length`,
    # `truncated`.
    described: pd.DataFrame
    # The built-in checks and warnings of the measurement; None for bare pools.
    noted: Checks | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone; all else is computed from them again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def group_sizes(self) -> list[int]:
        """The group sizes, from the smallest."""
        return self.probe.group_sizes

    @property
    def level(self) -> float:
        """Coverage of intervals; tests are at 1 - level."""
        return self.probe.interval.level

    @cached_property
    def estimators(self) -> tuple[Estimator, ...]:
        """The estimators; one that does not exist or apply is refused."""
        entries = self.probe.estimators
        return tuple(find_estimators(entries, self.group_sizes, self.pools.prompts))

    @cached_property
    def errors(self) -> dict[Key, Floats]:
        """Squared errors of every group, (P, R)."""
        return measure_errors(self.pools, self.estimators, self.group_sizes)

    @property
    def held(self) -> bool:
        """Whether all built-in checks hold; bare pools come without checks that fail."""
        return self.noted is None or self.noted.ok

    @property
    def setting(self) -> Setting:
        """The training that its probe is about."""
        return find_setting(self.probe.training, self.probe) if self.noted else DEFAULT

    @property
    def checkpoint(self) -> str:
        """Which model it is of; empty for bare pools."""
        model = self.probe.model
        return f"{model.path} {model.revision or ''}".strip() if self.noted else ""

    @property
    def law_only(self) -> bool:
        """Whether products are unknown, so that laws stand for replicates everywhere."""
        return not self.pools.has_cross_products

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        return self.curves.moments

    @property
    def bootstrap(self) -> Bootstrap | None:
        """The bootstrap that gives the intervals; None for the closed form."""
        asked, seed = self.probe.interval, self.probe.seed
        return Bootstrap(asked.resamples, seed) if asked.method == "bootstrap" else None

    @cached_property
    def table(self) -> PromptTable:
        """The prompts, drawn from a distribution or all that there are; three or more.

        A bootstrap draws prompts, of which there are no others where these are all.
        """
        if self.probe.prompts.population == "these":
            return PromptTable.of_pools(self.pools, size=self.pools.prompts)
        return PromptTable.of_pools(self.pools, bootstrap=self.bootstrap)

    @cached_property
    def curves(self) -> Curves:
        """What the curves of all estimators share."""
        rng = stream(self.probe.seed, "reference noise")
        noise = draw_reference_noise(self.pools, self.probe.interval.resamples, rng)
        return Curves(self.pools, noise, self.name, self.bootstrap)

    @cached_property
    def points(self) -> dict[Key, Point]:
        """Every point of every curve, as measured and by its law."""
        return measure_curves(self.curves, self.estimators, self.errors)

    @property
    def compared_sizes(self) -> tuple[int, ...]:
        """Group sizes of two or more, which all compared estimators are defined for."""
        return tuple(size for size in self.group_sizes if size > 1)

    @cached_property
    def compared_errors(self) -> dict[Key, Floats]:
        """Squared errors of every group of the compared estimators, (P, R)."""
        compared = find_estimators(COMPARED_ESTIMATORS, self.compared_sizes)
        return measure_errors(self.pools, compared, self.compared_sizes)

    @cached_property
    def _compared(self) -> dict[Key, Statistic]:
        compared = find_estimators(COMPARED_ESTIMATORS, self.compared_sizes)
        points = measure_curves(self.curves, compared, self.compared_errors)
        curves = {key: measured or law for key, (measured, law) in points.items()}
        return {key: curve.statistic() for key, curve in curves.items() if curve}

    def mse_of(self, estimator: str, group_size: int) -> Statistic:
        """Measure the aggregate's MSE: by the law where there are no replicates."""
        return self._compared[Key(estimator, group_size)]

    def law_of(self, estimator: str, group_size: int) -> Statistic:
        """Evaluate the aggregate's exact law; of a constant baseline at G = 1, G x MSE."""
        law = self.curves.by_law(find_estimator(estimator), group_size)
        assert law is not None  # All that are compared have one.
        return law.statistic()

    @cached_property
    def mse(self) -> pd.DataFrame:
        """Errors of the mean over prompts: `mse.csv`, by estimator and group size.

        `mse` with its interval `mse_low` to `mse_high`; `mse_plain`, against one finite
        reference; `law`, exact; `relative_mse`, over ||g||^2; `ratio` to the oracle's mse;
        `bias2`, `variance`; `slope`, <E g_hat, g> / ||g||^2; `cosine` of E g_hat and g;
        `scale_free_mse`, after the best rescaling; `probe`, its name; `replicates`. If
        there are estimators beyond those of Figure 4, `scale_free_ratio`.

        A number that cannot be computed is left empty. Where there are no replicates, or
        where a biased estimator's weights depend on lengths, norms or other prompts, these
        are all but the name and the law; where ||g||^2 is not positive, those that divide
        by it.
        """
        pools, level, norm2 = self.pools, self.level, self.pools.aggregate_norm2
        excess = float(pools.reference_distance2_P.sum() / 4 / pools.prompts**2)
        known = norm2 > aggregate_norm2_error(pools)
        further = {key.estimator for key in self.points}.difference(FIGURE_4_ESTIMATORS)
        rows = []
        for key, (measured, law) in self.points.items():
            base = self.points.get(Key(BASE, key.group_size), NO_POINT).measured
            mse = math.nan if measured is None else float(measured.point.mse)
            row: Columns = {
                "probe": self.name,
                **key._asdict(),
                "replicates": self.errors[key].shape[1],
                **interval_columns("mse", _interval(measured, "mse", level)),
                "mse_plain": mse + excess,
                **interval_columns("law", _interval(law, "mse", level)),
                "relative_mse": mse / norm2 if known else math.nan,
                **interval_columns("ratio", paired_ratio(measured, base, level)),
                **_parts(measured, level),
            }
            if further:
                ratio = paired_ratio(measured, base, level, "scale_free_mse")
                row |= interval_columns("scale_free_ratio", ratio)
            rows.append(row)
        return pd.DataFrame(rows)

    @cached_property
    def laws(self) -> pd.DataFrame:
        """Exact laws at more group sizes, up to 1,024: `laws.csv`, columns as in `mse`."""
        points = law_curves(self.curves, self.estimators, self.group_sizes)
        rows = [
            {"probe": self.name, **key._asdict(), **_law_columns(curve, self.level)}
            for key, curve in points
        ]
        # The heads are there even if no estimator has a law.
        heads = ["probe", *Key._fields, *_law_columns(None, self.level)]
        return pd.DataFrame(rows, columns=heads)

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """Moments of each prompt: `prompts.csv`.

        `prompt` (its id), `category`, `value` V, `score_norm2` E||W||^2, `grad_norm2`
        ||g||^2, `trace_oracle` T, `zeta`, `best_baseline` b*, `mean_length` in tokens,
        `truncated` (share), `rho`, E||W||^2 of right over wrong completions, and
        `logit_norm2`, the mean squared norm of the logits' scores. Rho and its interval are
        empty unless all rewards are 0 or 1, and for a prompt whose replicate completions
        are all right or all wrong, `logit_norm2` unless all its norms are recorded.
        """
        pools, described = self.pools, self.described
        moments = pool_moments(pools)
        ratios_P3 = measure_norm_ratios(pools, self.level)
        return pd.DataFrame(
            {
                **described[["prompt", "category"]],
                "value": moments.value,
                "score_norm2": moments.norm2,
                "grad_norm2": moments.gradient2,
                "trace_oracle": moments.trace_oracle,
                "zeta": moments.zeta,
                "best_baseline": moments.best_baseline,
                **described[["mean_length", "truncated"]],
                **dict(zip(RHO, ratios_P3.T, strict=True)),
                "logit_norm2": pools.logit_norms2_PN.mean(-1),
            }
        )

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables, by the names of their files."""
        return {
            "mse.csv": self.mse,
            "laws.csv": self.laws,
            "prompts.csv": self.prompts,
        }

    @cached_property
    def warnings(self) -> list[str]:
        """What a reader should know before using the numbers, one sentence each."""
        if self.noted is not None:
            return self.noted.warnings
        return [
            *warn_of_norms_only(self.pools, self.points),
            *warn_of_few_degrees(self.pools, self.points),
            *warn_of_small_reference(self.pools, self.points),
            *warn_of_weak_gradient(self.pools),
            *warn_of_disagreement(self.points),
        ]
