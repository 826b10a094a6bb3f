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
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.probe.streams import stream

BUCKETS = 2**14

# All prompts' vectors together, on disk and, at the end, in memory.
EXACT_BYTES = 2**28

# Rows of a parameter whose signs are drawn at a time.
_ROWS = 2**8


def vectors_fit(prompts: int, parameters: int) -> bool:
    """Whether P vectors of D float32 numbers are kept as they are."""
    return 4 * prompts * parameters <= EXACT_BYTES


class Keeper(Protocol):
    """Keeps what is wanted of a gradient that comes a parameter at a time, in any order."""

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Add a parameter's gradient, flat parts in order, to what it has of it."""

    @property
    def vector(self) -> NDArray[np.float32]:
        """What is kept."""


class Whole:
    """A gradient kept as it is, in the order of the parameters."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        sizes = [parameter.numel() for parameter in parameters.values()]
        self._starts = dict(zip(parameters, np.cumsum([0, *sizes]).tolist(), strict=False))
        self.vector = np.zeros(sum(sizes), np.float32)

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Add a parameter's gradient at its place."""
        at = self._starts[name]
        for part in parts:
            numbers = part.detach().flatten().float().cpu().numpy()
            self.vector[at : at + len(numbers)] += numbers
            at += len(numbers)


def _signs(rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
    bits = np.frombuffer(rng.bytes(math.ceil(count / 8)), np.uint8)
    return np.unpackbits(bits, count=count).view(np.bool_)


def _cut(parts: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Cut numbers that come in parts into chunks of one size, the last one shorter."""
    rest: list[Tensor] = []
    for part in parts:
        flat = part.detach().flatten()
        *whole, last = (torch.cat([*rest, flat]) if rest else flat).split(size)
        yield from whole
        rest = [last]
        if len(last) == size:
            yield rest.pop()
    yield from rest


def _fold(parts: Iterable[Tensor], rng: np.random.Generator, buckets: int) -> Floats:
    """Add the rows of a parameter up, each with its signs and shifted around, (k,)."""
    folded = torch.zeros(buckets, dtype=torch.float64)
    for chunk in _cut(parts, _ROWS * buckets):
        folded = folded.to(chunk.device)
        negative = torch.from_numpy(_signs(rng, len(chunk))).to(chunk.device)
        # Row by row: what is made of a row stays in the processor's cache.
        for plain, signs in zip(chunk.split(buckets), negative.split(buckets), strict=True):
            row = torch.where(signs, -plain, plain)
            shift = int(rng.integers(buckets))
            ahead, around = row[: buckets - shift], row[buckets - shift :]
            folded[shift : shift + len(ahead)] += ahead
            folded[: len(around)] += around
    return np.asarray(folded.cpu())


class Sketch:
    """A count-sketch of a gradient, (k,); the hash is of seed and parameter names alone."""

    def __init__(self, seed: int, buckets: int = BUCKETS) -> None:
        self._seed, self._sums = seed, np.zeros(buckets)

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Fold a parameter's gradient in."""
        rng = stream(self._seed, "sketch", name)
        self._sums += _fold(parts, rng, len(self._sums))

    @property
    def vector(self) -> NDArray[np.float32]:
        """The sketch."""
        return self._sums.astype(np.float32)


def sketch(
    gradient: Mapping[str, Tensor], seed: int, buckets: int = BUCKETS
) -> NDArray[np.float32]:
    """Count-sketch a gradient, (k,).

    <sketch(u), sketch(v)> has mean <u, v> over the hash.
    """
    kept = Sketch(seed, buckets)
    for name, part in gradient.items():
        kept.add(name, [part])
    return kept.vector


def describe(exact: bool) -> str:
    """Say how the products between prompts were had, and how exact they are."""
    if exact:
        return "exact"
    low, high = BUCKETS**-0.5, (2 / BUCKETS) ** 0.5
    return (
        f"count-sketch of {BUCKETS} buckets: standard error of a product "
        f"{low:.4f} to {high:.4f} of the product of the norms"
    )
