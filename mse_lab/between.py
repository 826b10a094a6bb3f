"""Inner products between the reference gradients of different prompts.

The aggregate's ||g||^2, c1 and an aggregate bias need Gamma_xx' = <rbar(x), rbar(x')> off
the diagonal. Where P D numbers fit, every rbar is kept as it is. Else each is kept as a
count-sketch: every parameter is added, with a sign, to one of k buckets, the same hash for
all prompts, so that products of sketches are unbiased for the products of the vectors,
with a standard error of sqrt(1/k) to sqrt(2/k) of the product of the norms.
(Charikar, Chen and Farach-Colton 2002.)
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.streams import stream

BUCKETS = 2**14

# All prompts' vectors together, on disk and, at the end, in memory.
EXACT_BYTES = 2**28

_CHUNK = 2**22


def vectors_fit(prompts: int, parameters: int) -> bool:
    """Whether P vectors of D float32 numbers are kept as they are."""
    return 4 * prompts * parameters <= EXACT_BYTES


def flatten(gradient: Mapping[str, Tensor]) -> NDArray[np.float32]:
    """Join a gradient into one vector, in the order of its parameters."""
    parts = [part.detach().flatten().float().cpu() for part in gradient.values()]
    return torch.cat(parts).numpy()


def sketch(
    gradient: Mapping[str, Tensor], seed: int, buckets: int = BUCKETS
) -> NDArray[np.float32]:
    """Count-sketch a gradient; the hash depends on seed and parameter names alone.

    Args:
        gradient: Parameter name -> tensor.
        seed: The run's seed.
        buckets: Length k of the sketch.

    Returns:
        Vector (k,); <sketch(u), sketch(v)> has mean <u, v> over the hash.
    """
    sums = np.zeros(buckets)
    for name, part in gradient.items():
        rng = stream(seed, "sketch", name)
        values = part.detach().flatten().double().cpu().numpy()
        for start in range(0, len(values), _CHUNK):
            chunk = values[start : start + _CHUNK]
            hashed = rng.integers(0, 2 * buckets, size=len(chunk), dtype=np.int32)
            signed = np.where(hashed & 1, chunk, -chunk)
            sums += np.bincount(hashed >> 1, weights=signed, minlength=buckets)
    return sums.astype(np.float32)


def describe(exact: bool) -> str:
    """Say how the products between prompts were had, and how exact they are."""
    if exact:
        return "exact"
    low, high = BUCKETS**-0.5, (2 / BUCKETS) ** 0.5
    return (
        f"count-sketch of {BUCKETS} buckets: standard error of a product "
        f"{low:.4f} to {high:.4f} of the product of the norms"
    )
