"""Tables: pools and curves -> the rows of the `.csv` files of a result."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.mse.curves import Curve, Curves
from mse_lab.mse.decomposition import PARTS, Decomposition, decompose
from mse_lab.mse.grouping import form_groups, group_grams
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.moment_laws import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.replicates import Key
from mse_lab.probe.prompts import Prompt
from mse_lab.results.diagnostics import gradient_norm2_error

BASE = "oracle"

Columns = dict[str, str | int | float | None]


def _columns(name: str, estimate: Estimate | None) -> Columns:
    heads = (name, f"{name}_low", f"{name}_high")
    return dict(zip(heads, estimate or (None, None, None), strict=True))


def _interval(curve: Curve | None, part: str, level: float) -> Estimate | None:
    return None if curve is None else curve.interval(part, level)


def ratio(
    curve: Curve | None, base: Curve | None, level: float, part: str = "mse"
) -> Estimate | None:
    """Estimate a ratio to another curve, paired: both see the same groups.

    None where either is missing or the base is not measurably positive.
    """
    if curve is None or base is None:
        return None
    found = curve.statistic(part) / base.statistic(part)
    estimate = found.interval(level, positive=True)
    return estimate if np.isfinite(estimate.value) else None


def mse_table(
    name: str,
    pools: Pools,
    errors: Mapping[Key, Floats],
    found: Mapping[Key, tuple[Curve | None, Curve | None]],
    level: float,
) -> pd.DataFrame:
    """Make `mse.csv`: one row for each estimator and group size, of the aggregate.

    Columns: `mse` with its interval, (1/P^2) sum_x tr Var + ||mean bias||^2; `mse_plain`
    the same against the finite reference; `law` the exact law at the pool's moments, from
    the same draws; `relative_mse` is MSE / ||g||^2; `ratio` the paired ratio to the
    oracle's MSE; then the parts of `bias.Decomposition`. A number that cannot be had is
    left empty: all but the name and the law where a biased estimator's weights depend on
    lengths, norms or other prompts; what divides by ||g||^2 where that is not positive.
    With norms only, `replicates` is 0 and nothing but the law is given; its parts stand
    in `laws.csv`.
    """
    excess = float(pools.reference_distance2_P.sum() / 4 / pools.prompts**2)
    rows = []
    for key, (measured, law) in found.items():
        base = found.get(Key(BASE, key.group_size), (None, None))[0]
        row: Columns = {
            "probe": name,
            "estimator": key.estimator,
            "group_size": key.group_size,
            "replicates": errors[key].shape[1],
            **_columns("mse", _interval(measured, "mse", level)),
            "mse_plain": None if measured is None else float(measured.point.mse) + excess,
            **_columns("law", _interval(law, "mse", level)),
            "relative_mse": _relative(measured, pools),
            **_columns("ratio", ratio(measured, base, level)),
            **_parts(measured),
            **_columns("scale_free_mse", _interval(measured, "scale_free_mse", level)),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _relative(curve: Curve | None, pools: Pools) -> float | None:
    """Divide by the aggregate's ||g||^2, where that is measurably positive."""
    norm2 = pools.aggregate_norm2
    known = norm2 > gradient_norm2_error(pools)
    return float(curve.point.mse) / norm2 if curve is not None and known else None


def _parts(curve: Curve | None) -> Columns:
    names = ("bias2", "variance", "slope", "cosine")
    return {
        name: None if curve is None else float(getattr(curve.point, name)) for name in names
    }


def _law_columns(curve: Curve | None, level: float) -> Columns:
    return {
        **_columns("law", _interval(curve, "mse", level)),
        **_parts(curve),
        **_columns("scale_free_mse", _interval(curve, "scale_free_mse", level)),
    }


def laws_table(
    name: str, points: Iterable[tuple[Key, Curve]], level: float
) -> pd.DataFrame:
    """Make `laws.csv`: laws at the probe's group sizes and the powers of two to 1024."""
    rows = [
        {
            "probe": name,
            "estimator": key.estimator,
            "group_size": key.group_size,
            **_law_columns(curve, level),
        }
        for key, curve in points
    ]
    # The heads stand even where no estimator has a law.
    heads = ["probe", "estimator", "group_size", *_law_columns(None, level)]
    return pd.DataFrame(rows, columns=heads)


def describe_prompts(
    prompts: Sequence[Prompt], mean_length: Sequence[float], truncated: Sequence[float]
) -> pd.DataFrame:
    """Say of each prompt what its pools do not know."""
    return pd.DataFrame(
        {
            "prompt": [prompt.id for prompt in prompts],
            "category": [prompt.category for prompt in prompts],
            "mean_length": mean_length,
            "truncated": truncated,
        }
    )


def prompts_table(described: pd.DataFrame, pools: Pools) -> pd.DataFrame:
    """Make `prompts.csv`: one row a prompt, in file order.

    Args:
        described: As by `describe_prompts`.
        pools: The pools.
    """
    moments = pool_moments(pools)
    return pd.DataFrame(
        {
            "prompt": described["prompt"],
            "category": described["category"],
            "value": moments.value,
            "score_norm2": moments.norm2,
            "grad_norm2": moments.gradient2,
            "trace_oracle": moments.trace_oracle,
            "zeta": moments.zeta,
            "best_baseline": moments.best_baseline,
            "mean_length": described["mean_length"],
            "truncated": described["truncated"],
        }
    )


def _mean_norm2(pools: Pools, weights_PRG: Floats) -> Floats:
    """||E g_hat||^2 of each prompt from products between groups of a block, (P,).

    NaN where a block holds one group only.
    """
    prompts, _, size = weights_PRG.shape
    weights_PN = weights_PRG.reshape(prompts, pools.blocks, pools.largest_group)
    parts = pools.largest_group // size
    if parts < 2:
        return np.full(prompts, np.nan)
    weighted = weights_PN[..., :, None] * pools.gram_PKGG * weights_PN[..., None, :]
    own = weights_PRG[..., :, None] * group_grams(pools, size) * weights_PRG[..., None, :]
    total = weighted.sum((1, 2, 3)) - own.sum((1, 2, 3))
    return np.asarray(total / (pools.blocks * parts * (parts - 1) * size**2))


def _decompose_prompts(
    curves: Curves, estimator: Estimator, size: int, errors_PR: Floats
) -> Decomposition:
    """Take every prompt's mean square apart, with the law's slope where there is one."""
    pools, norm2 = curves.pools, curves.moments.gradient2
    law = curves.find_law(estimator, size)
    if estimator.unbiased or law is not None:
        slope = law(curves.moments).slope if law is not None else np.ones(pools.prompts)
        mean_norm2, inner = slope**2 * norm2, slope * norm2
    else:
        weights = estimator.weights(form_groups(pools, size))
        products = pools.products_PN.reshape(weights.shape)
        mean_norm2 = _mean_norm2(pools, weights)
        inner = (weights * products).mean((1, 2))
    # Without replicates there is nothing to average.
    mse = errors_PR.mean(-1) if errors_PR.size else np.full(pools.prompts, np.nan)
    return decompose(mse, mean_norm2, inner, norm2)


def by_prompt_table(
    names: Iterable[str],
    curves: Curves,
    estimators: Sequence[Estimator],
    errors: Mapping[Key, Floats],
) -> pd.DataFrame:
    """Make `by_prompt.csv`: each prompt's MSE, taken apart, by estimator and group size.

    Where an estimator has no law, <E g_hat, g> and ||E g_hat||^2 are measured on the
    replicates; ||E g_hat||^2 needs two groups in a block, and is empty at the largest
    group size, with all that follows from it. `law` is the exact law at the prompt's
    moments. With norms only the law, the slope and the bias of an estimator that has a law
    are left.
    """
    tables = []
    for estimator in estimators:
        for key in (key for key in errors if key.estimator == estimator.name):
            parts = _decompose_prompts(curves, estimator, key.group_size, errors[key])
            tables.append(
                pd.DataFrame(
                    {
                        "prompt": list(names),
                        "estimator": key.estimator,
                        "group_size": key.group_size,
                        **{name: getattr(parts, name) for name in PARTS},
                        "law": curves.prompts_by_law(estimator, key.group_size),
                    }
                )
            )
    return pd.concat(tables, ignore_index=True)
