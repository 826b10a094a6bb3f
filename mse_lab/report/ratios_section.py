"""Paired ratios on the page: one estimator's MSE over another's, at every group size."""

from collections.abc import Sequence
from typing import Any

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.mse.curves import paired_ratio
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.replicates import Key

PAIRS = {
    "GRPO-type / oracle": ("grpo", "oracle"),
    "Vanilla / oracle": ("vanilla", "oracle"),
    "Best constant / oracle": ("best-constant", "oracle"),
    "GRPO-type / vanilla": ("grpo", "vanilla"),
}


def _ratios(
    source: FinishedRun, pair: tuple[str, str], size: int
) -> tuple[Estimate | None, Estimate | None]:
    """Ratio as measured, and by law; None where it cannot be had."""
    top, bottom = (source.compared[Key(name, size)] for name in pair)
    level = source.level
    measured = paired_ratio(top.measured, bottom.measured, level)
    return measured, paired_ratio(top.law, bottom.law, level)


def _rows(source: FinishedRun) -> list[tuple[int, list[Any]]]:
    return [
        (size, [_ratios(source, pair, size) for pair in PAIRS.values()])
        for size in source.sizes
    ]


def compare_pairs(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Work out the ratios: `pairs`, their names; `runs`, (run, rows by group size)."""
    return {
        "pairs": list(PAIRS),
        "runs": [(source, _rows(source)) for source in sources],
    }
