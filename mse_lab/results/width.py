"""Which pools give intervals of the width that a probe wants, `interval.width`.

A value's variance is V_g / r + V_r with r times the replicates, where V_r comes from the
reference, and falls at least as its size grows.
"""

import math

from mse_lab.config.schema import MOST_COMPLETIONS, Probe
from mse_lab.formatting import share
from mse_lab.mse.intervals import Statistic, half_width, spread_of_means
from mse_lab.results.analysis import Analysis

MORE_PROMPTS = "it takes more prompts"


def relative_width(statistic: Statistic, level: float) -> float:
    """Half the width of a positive number's interval, relative to it."""
    reach = half_width(statistic.error, level, statistic.degrees)
    return reach / statistic.value if statistic.value > 0 else math.nan


def growth_of_pools(statistic: Statistic, narrower: float) -> tuple[float, float]:
    """How many times the replicates, and the reference, leave this share of a width.

    Where V_r alone is more than half of the variance that is wanted, both grow alike.
    """
    wanted = narrower**2 * statistic.spread.variance
    drawn = sum(spread_of_means(part).variance for part in statistic.groups.values())
    rest = statistic.spread.variance - drawn
    if rest <= wanted / 2:
        return drawn / (wanted - rest), 1.0
    return 1 / narrower**2, 1 / narrower**2


def _larger(pool: int, growth: float, of: int) -> int:
    return of * math.ceil(pool * growth / of)


def say_pools_for(run: Analysis, probe: Probe) -> str:
    """Say which pools the wanted width takes; empty where all intervals are that narrow."""
    wanted, level, pool = probe.interval.width, probe.interval.level, probe.pool
    measured = {key: point.measured for key, point in run.points.items() if point.measured}
    statistics = {key: curve.statistic() for key, curve in measured.items()}
    widths = {key: relative_width(one, level) for key, one in statistics.items()}
    wide = {key: width for key, width in widths.items() if width > wanted}
    if not wide:
        return ""
    growths = [
        growth_of_pools(statistics[key], wanted / width) for key, width in wide.items()
    ]
    replicate, reference = map(max, zip(*growths, strict=True))
    sizes = {"pool.replicate": _larger(pool.replicate, replicate, run.pools.largest_group)}
    if reference > 1:
        sizes["pool.reference"] = _larger(pool.reference, reference, 2)
    settings = " ".join(f"--set {name}={size}" for name, size in sizes.items())
    fits = max(sizes.values()) <= MOST_COMPLETIONS
    name, size = widest = max(wide, key=lambda key: wide[key])
    return (
        f"interval.width = {wanted:g} is wanted, and {name} at G = {size} has "
        f"{share(wide[widest])}: {f'--fresh {settings} would do' if fits else MORE_PROMPTS}"
    )
