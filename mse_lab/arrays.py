"""Arrays: their types, and how large and how small their numbers may be."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]


# The largest reward, squared score norm, and weight of a user's own estimator; below the
# least they count as zero. What pools hold beside them are products of up to three of
# these, as an error is. The highest power of an error is its fourth, in the uncertainty of
# its variance: 1e300 and 1e-300, where float64 reaches from 2e-308 to 1.8e308.
LARGEST, LEAST = 1e25, 1e-25
