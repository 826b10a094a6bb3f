"""Inner products between the reference gradients of different prompts.

The aggregate's ||g||^2, c1 and an aggregate bias need Gamma_xx' = <rbar(x), rbar(x')> off
the diagonal. Where P D numbers fit, every rbar is kept as it is. Else each is kept as a
count-sketch (Charikar, Chen and Farach-Colton 2002): every number is added, with a sign, to
one of k buckets, the same hash for all prompts.

A parameter is cut into rows of k numbers, each number has a random sign of its own, each
row a random shift o_c: number a of row c goes to bucket a + o_c (mod k). Two numbers of a
row never meet, two of different rows with probability 1/k, their signs independent:
products of sketches are unbiased, with a standard error of at most sqrt(2/k) of the
product of the norms, as with a hash of single numbers.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.probe.streams import stream

BUCKETS = 2**14

# All prompts' vectors together, on disk and, at the end, in memory.
EXACT_BYTES = 2**28

# Rows of a parameter whose signs are drawn at a time.
_ROWS = 2**8


def vectors_fit(prompts: int, parameters: int) -> bool:
    """Whether P vectors of D float32 numbers are kept as they are."""
    return 4 * prompts * parameters <= EXACT_BYTES


def flatten(gradient: Mapping[str, Tensor]) -> NDArray[np.float32]:
    """Join a gradient into one vector, in the order of its parameters."""
    parts = [part.detach().flatten().float().cpu() for part in gradient.values()]
    return torch.cat(parts).numpy()


def _signs(rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
    bits = np.frombuffer(rng.bytes(math.ceil(count / 8)), np.uint8)
    return np.unpackbits(bits, count=count).view(np.bool_)


def _fold(part: Tensor, rng: np.random.Generator, buckets: int) -> Tensor:
    """Add the rows of a parameter up, each with its signs and shifted around, (k,)."""
    folded = torch.zeros(buckets, dtype=torch.float64, device=part.device)
    for chunk in part.flatten().split(_ROWS * buckets):
        negative = torch.from_numpy(_signs(rng, len(chunk))).to(part.device)
        for row in torch.where(negative, -chunk, chunk).split(buckets):
            shift = int(rng.integers(buckets))
            ahead, around = row[: buckets - shift], row[buckets - shift :]
            folded[shift : shift + len(ahead)] += ahead
            folded[: len(around)] += around
    return folded


def sketch(
    gradient: Mapping[str, Tensor], seed: int, buckets: int = BUCKETS
) -> NDArray[np.float32]:
    """Count-sketch a gradient, (k,); the hash depends on seed and parameter names alone.

    <sketch(u), sketch(v)> has mean <u, v> over the hash.
    """
    sums = torch.zeros(buckets, dtype=torch.float64)
    for name, part in gradient.items():
        sums += _fold(part.detach(), stream(seed, "sketch", name), buckets).cpu()
    return sums.float().numpy()


def describe(exact: bool) -> str:
    """Say how the products between prompts were had, and how exact they are."""
    if exact:
        return "exact"
    low, high = BUCKETS**-0.5, (2 / BUCKETS) ** 0.5
    return (
        f"count-sketch of {BUCKETS} buckets: standard error of a product "
        f"{low:.4f} to {high:.4f} of the product of the norms"
    )
