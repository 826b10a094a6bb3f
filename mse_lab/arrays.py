"""Arrays: their types, and how large and how small their numbers may be."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]

# The largest reward, squared score norm, and weight of a user's own estimator; below the
# least they count as zero. An error, like all else that pools hold, is a product of up to
# three of these. The highest power of an error is its fourth, in the uncertainty of its
# variance: 1e300 and 1e-300, where float64 reaches from 2e-308 to 1.8e308.
LARGEST, LEAST = 1e25, 1e-25


def divide(top: Any, bottom: Any, otherwise: Floats | float = 0.0) -> Floats:
    """Divide; give `otherwise` where the bottom is not positive.

    >>> divide([1.0, 1.0], [2.0, 0.0]).tolist()
    [0.5, 0.0]
    """
    top, bottom = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    out = np.array(np.broadcast_to(otherwise, top.shape), dtype=float)
    return np.divide(top, bottom, out=out, where=bottom > 0)
