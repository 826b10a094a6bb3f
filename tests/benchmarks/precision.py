"""Completions that each way needs for the same interval on GRPO-type / oracle at G = 8.

The tiny checkpoint is measured with pools of several sizes, the reference four times the
replicates as in its probe, and the width of the ratio's interval is fitted as a power of
the pool, for three ways to look at the same errors:

- **fresh**: each estimator has completions of its own, so their errors are independent;
- **paired**: both see the same groups;
- **law**: the exact law at the pool's moments.

The aim is the width that the paired ratio has with the probe's own pools. What it costs
follows by counting. A figure of three estimators at five group sizes, R = N/8 replicates
each, takes 3 R (4 + 8 + 16 + 32 + 64) fresh completions, a third of it where the estimators
share them, and N where groups of all sizes are cut from the same pool (larger groups then
have fewer replicates, N/G). Every way draws and differentiates the reference once; that of
the law grows with its pool, as the noise of V is part of it.
"""

from pathlib import Path

from benchmarks import tool
from benchmarks.cases import ESTIMATORS, GROUP_SIZES, TINY
from benchmarks.tables import Fit, fit_power, table

SIZE = 8
LEVEL = 0.95
REPLICATE, TIMES = 256, 4
REFERENCE = TIMES * REPLICATE


def _widths(pool: int, prompts: int, folder: Path) -> dict[str, float]:
    """Run with a pool of so many replicates; give each way's width over its ratio."""
    loaded = tool.load(
        TINY,
        folder,
        prompts=prompts,
        reference=TIMES * pool,
        replicate=pool,
        group_sizes=[SIZE],
    )
    tool.run(loaded, folder / "precision")
    found = tool.ratios(folder / "precision", SIZE)
    intervals = {way: one.interval(LEVEL, positive=True) for way, one in found.items()}
    return {way: (one.high - one.low) / one.value for way, one in intervals.items()}


def fit_widths(prompts: int, pools: tuple[int, ...], folder: Path) -> dict[str, Fit]:
    """Fit width = a N^b for each way, N the replicate pool of an estimator."""
    widths = [_widths(pool, prompts, folder) for pool in pools]
    return {way: fit_power(pools, [one[way] for one in widths]) for way in widths[0]}


def completions(needed: dict[str, float]) -> list[tuple[str, str, list[float]]]:
    """Count what each way draws and differentiates, the reference included.

    For each way, by name, and its N for the aim: the way in words, the fit behind it, and
    four counts: drawn and differentiated for the ratio alone, and for the whole figure.
    """
    sizes, estimators = sum(GROUP_SIZES) / SIZE, len(ESTIMATORS)
    fresh, paired = needed["fresh"], needed["paired"]
    all_fresh, figure = estimators * sizes * fresh, sizes * paired
    counts = [
        (
            "fresh completions for each estimator and group size",
            "fresh",
            [2 * fresh, 2 * fresh, all_fresh, all_fresh],
        ),
        (
            "completions shared by the estimators",
            "paired",
            [paired, 2 * paired, figure, estimators * figure],
        ),
        ("shared by the group sizes too, one pass each", "paired", [paired] * 4),
    ]
    with_reference = [
        (way, fit, [REFERENCE + count for count in drawn]) for way, fit, drawn in counts
    ]
    law = (1 + TIMES) * needed["law"]
    return [*with_reference, ("the same, by the exact law", "law", [law] * 4)]


def report(prompts: int, pools: tuple[int, ...], folder: Path) -> str:
    """Measure, fit and tabulate; nothing is extrapolated below the smallest pool."""
    fits = fit_widths(prompts, pools, folder)
    width = fits["paired"].at(REPLICATE)
    needed = {way: one.solve(width) for way, one in fits.items()}
    below = {way for way, count in needed.items() if count < min(pools)}
    rows = [
        [way, fits[fit], *(f"{'≤ ' * (fit in below)}{count:,.0f}" for count in counts)]
        for way, fit, counts in completions(
            {way: max(count, min(pools)) for way, count in needed.items()}
        )
    ]
    head = [
        "way",
        "width as a power of N",
        "ratio at G = 8: drawn",
        "differentiated",
        "whole figure: drawn",
        "differentiated",
    ]
    note = (
        f"Completions a prompt, the reference included, for a {LEVEL:.0%} interval of "
        f"relative width {width:.3f}: the paired ratio's with {REFERENCE:,} + {REPLICATE}. "
        f"tiny/base, {prompts} prompts, replicate pools of {', '.join(map(str, pools))}, "
        f"widths from {tool.RESAMPLES:,} resamples."
    )
    return f"{table(head, rows)}\n\n{note}"
