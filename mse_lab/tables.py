"""Tables: pools and configuration -> the rows of `mse.csv` and `prompts.csv`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mse_lab.config import Probe
from mse_lab.intervals import (
    Resamples,
    aggregate_mse,
    law_intervals,
    percentile_interval,
    ratio_interval,
)
from mse_lab.laws import pool_moments
from mse_lab.pools import Floats, Pools
from mse_lab.prompts import Prompt
from mse_lab.replicates import Key, block_means

BASE = "oracle"


def mse_table(
    name: str,
    probe: Probe,
    pools: Pools,
    errors: Mapping[Key, Floats],
    resamples: Resamples,
) -> pd.DataFrame:
    """Make `mse.csv`: one row for each estimator and group size.

    Columns: `mse` with its interval is the MSE of the aggregate over the fixed prompts,
    (1/P^2) sum_x MSE(x); `mse_plain` the same against the finite reference; `law` the
    exact law at the pool's moments, from the same bootstrap draws; `relative_mse` is
    MSE / ||g||^2 of the aggregate, empty where ||g||^2 is not measurably positive;
    `ratio` the paired ratio to the oracle's MSE.
    """
    level = probe.interval.level
    means = {key: block_means(errors_PR, pools.blocks) for key, errors_PR in errors.items()}
    laws = law_intervals(pools, resamples, errors, level)
    plain_excess = float(pools.reference_distance2_P.sum() / 4 / pools.prompts**2)
    rows = []
    for key, means_PK in means.items():
        value = float(means_PK.mean(-1).sum() / pools.prompts**2)
        mse = percentile_interval(value, aggregate_mse(resamples, means_PK), level)
        law, base = laws.get(key), means.get(Key(BASE, key.group_size))
        ratio = (
            ratio_interval(means_PK, base, resamples, level) if base is not None else None
        )
        norm2 = pools.aggregate_norm2
        rows.append(
            {
                "probe": name,
                "estimator": key.estimator,
                "group_size": key.group_size,
                "replicates": errors[key].shape[1],
                "mse": mse.value,
                "mse_low": mse.low,
                "mse_high": mse.high,
                "mse_plain": value + plain_excess,
                **_columns("law", law),
                "relative_mse": value / norm2 if norm2 > 0 else None,
                **_columns("ratio", ratio),
            }
        )
    return pd.DataFrame(rows)


def _columns(
    name: str, estimate: tuple[float, float, float] | None
) -> dict[str, float | None]:
    heads = (name, f"{name}_low", f"{name}_high")
    return dict(zip(heads, estimate or (None, None, None), strict=True))


def prompts_table(
    prompts: Sequence[Prompt],
    pools: Pools,
    lengths: NDArray[np.float64],
    truncated: NDArray[np.float64],
) -> pd.DataFrame:
    """Make `prompts.csv`: one row a prompt, in file order.

    Args:
        prompts: The prompts.
        pools: Their pools.
        lengths: Mean tokens of a completion, both pools (P,).
        truncated: Share of completions cut at the token limit, both pools (P,).
    """
    moments = pool_moments(pools)
    return pd.DataFrame(
        {
            "prompt": [prompt.id for prompt in prompts],
            "category": [prompt.category for prompt in prompts],
            "value": moments.value,
            "score_norm2": moments.norm2,
            "grad_norm2": moments.gradient2,
            "trace_oracle": moments.trace_oracle,
            "zeta": moments.zeta,
            "best_baseline": moments.best_baseline,
            "mean_length": lengths,
            "truncated": truncated,
        }
    )
