"""All ways give the same numbers: seen before anything is timed.

Inner products are compared relative to the largest ||W||^2, products with the reference to
the largest ||W|| ||rbar||, squared errors to the largest of them.
"""

import numpy as np

from benchmarks import loops
from benchmarks.cases import ESTIMATORS, GROUP_SIZES
from benchmarks.work import Work, errors_of_gram

# In float32 the ways differ by some 1e-6 to 1e-5.
TOLERANCE = 1e-4

Products = tuple[np.ndarray, np.ndarray]


class Disagreement(RuntimeError):
    """Two ways give different numbers: there is nothing to compare in speed."""


def _hold(what: str, difference: float, tolerance: float = TOLERANCE) -> float:
    if not difference <= tolerance:
        raise Disagreement(f"{what} differ by {difference:.1e}, more than {tolerance:.0e}")
    return difference


def compare_products(
    name: str, work: Work, ours: Products, theirs: Products, tolerance: float = TOLERANCE
) -> float:
    """Compare a library's inner products with this tool's: the largest relative difference.

    Raise `Disagreement` if it is more than the tolerance for rounding.
    """
    norm2 = np.abs(ours[0]).max()
    reference = float(work.reference_D.double().norm())
    return _hold(
        f"{name}: inner products",
        max(
            float(np.abs(ours[0] - theirs[0]).max() / norm2),
            float(np.abs(ours[1] - theirs[1]).max() / (np.sqrt(norm2) * reference)),
        ),
        tolerance,
    )


def compare_errors(work: Work, ours: Products) -> float:
    """Compare the first replicate's squared error of the loops with this tool's.

    Every estimator and every group size that the block holds is compared. The largest
    relative difference is returned, or a `Disagreement` raised.
    """
    sizes = [size for size in GROUP_SIZES if len(work) % size == 0]
    keys = [(estimator, size) for estimator in ESTIMATORS for size in sizes]
    expected = errors_of_gram(work, *ours, keys)
    scale = max(float(errors[0]) for errors in expected.values())
    worst = 0.0
    for size in sizes:
        together = loops.squared_errors(work, ESTIMATORS, slice(0, size))
        for estimator, error in zip(ESTIMATORS, together, strict=True):
            alone = loops.squared_error(work, estimator, slice(0, size))
            for found in (alone, error):
                worst = max(worst, abs(found - expected[estimator, size][0]) / scale)
    return _hold("the loops' squared errors", float(worst))
