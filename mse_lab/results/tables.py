"""Tables: from pools and curves to the rows of the `.csv` files of a result."""

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.mse.curves import Curve, Point, Points, paired_ratio
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import aggregate_norm2_error
from mse_lab.mse.regime import measure_norm_ratios
from mse_lab.mse.replicates import Key

BASE = "oracle"


def interval_heads(name: str) -> list[str]:
    """Name the columns of a number and of its interval.

    >>> interval_heads("rho")
    ['rho', 'rho_low', 'rho_high']
    """
    return [name, f"{name}_low", f"{name}_high"]


RHO = tuple(interval_heads("rho"))

# The estimators of Figure 4, which are also a run's default.
FIGURE_4_ESTIMATORS = ("vanilla", "grpo", BASE)

NO_POINT = Point(None, None)

Columns = dict[str, str | int | float]


def interval_columns(name: str, estimate: Estimate | None) -> dict[str, float]:
    """Spread a number and its interval over three columns, empty without a number."""
    return dict(zip(interval_heads(name), estimate or UNKNOWN, strict=True))


def _interval(curve: Curve | None, part: str, level: float) -> Estimate | None:
    return None if curve is None else curve.interval(part, level)


def mse_table(
    name: str, pools: Pools, errors: Mapping[Key, Floats], points: Points, level: float
) -> pd.DataFrame:
    """Make `mse.csv`: the aggregate's errors, a row for each estimator and group size.

    A number that cannot be computed is left empty. Where there are no replicates, or where
    a biased estimator's weights depend on lengths, norms or other prompts, these are all
    but the name and the law; where ||g||^2 is not positive, those that divide by it. There
    is a column `scale_free_ratio` if there are estimators beyond those of Figure 4.
    """
    excess = float(pools.reference_distance2_P.sum() / 4 / pools.prompts**2)
    norm2 = pools.aggregate_norm2
    known = norm2 > aggregate_norm2_error(pools)
    further = {key.estimator for key in points}.difference(FIGURE_4_ESTIMATORS)
    rows = []
    for key, (measured, law) in points.items():
        base = points.get(Key(BASE, key.group_size), NO_POINT)
        mse = math.nan if measured is None else float(measured.point.mse)
        row: Columns = {
            "probe": name,
            **key._asdict(),
            "replicates": errors[key].shape[1],
            **interval_columns("mse", _interval(measured, "mse", level)),
            "mse_plain": mse + excess,
            **interval_columns("law", _interval(law, "mse", level)),
            "relative_mse": mse / norm2 if known else math.nan,
            **interval_columns("ratio", paired_ratio(measured, base.measured, level)),
            **_parts(measured, level),
        }
        if further:
            ratio = paired_ratio(measured, base.measured, level, "scale_free_mse")
            row |= interval_columns("scale_free_ratio", ratio)
        rows.append(row)
    return pd.DataFrame(rows)


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


def laws_table(
    name: str, points: Iterable[tuple[Key, Curve]], level: float
) -> pd.DataFrame:
    """Make `laws.csv`: laws at the probe's group sizes, and at powers of two to 1024."""
    rows = [
        {"probe": name, **key._asdict(), **_law_columns(curve, level)}
        for key, curve in points
    ]
    # The heads are there even if no estimator has a law.
    heads = ["probe", *Key._fields, *_law_columns(None, level)]
    return pd.DataFrame(rows, columns=heads)


def prompts_table(described: pd.DataFrame, pools: Pools, level: float) -> pd.DataFrame:
    """Make `prompts.csv`: one row for each prompt, in file order.

    `described` has the columns that pools do not know. `rho` and its interval are empty
    unless all rewards are 0 or 1, and for a prompt whose replicate completions are all
    right or all wrong, `logit_norm2` unless all its completions' norms are recorded.
    """
    moments = pool_moments(pools)
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
            **dict(zip(RHO, measure_norm_ratios(pools, level).T, strict=True)),
            "logit_norm2": pools.logit_norms2_PN.mean(-1),
        }
    )
