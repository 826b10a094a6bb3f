"""Inner products between the reference gradients of different prompts.

The aggregate's ||g||^2, c1 and an aggregate bias need Gamma_xx' = <rbar(x), rbar(x')> off
the diagonal. Where P D numbers fit, every rbar is kept as it is. Else each is kept as a
count-sketch (Charikar, Chen and Farach-Colton 2002): every number is added, with a sign, to
one of k buckets, the same hash for all prompts.

A parameter is cut into rows of k numbers. Row c has a random sign u_c and a random shift
o_c, place a of every row a random sign v_a: number a of row c goes to bucket a + o_c with
the sign u_c v_a, so that a row takes one pass over its numbers. With rows x_c and y_c of
two vectors a product of sketches is their product and, places counted modulo k,

    sum_{c != c'} u_c u_c' B_cc',  B_cc' = sum_a v_a v_{a+d} x_{c,a} y_{c',a+d},

d = o_c - o_c'. By the u its mean is zero, and its variance at most twice the mean of
sum B_cc'^2. By the v and with k odd the square is the sum of the squares, or, for one d in
k, d = 0, the square of the sum. Each, summed over d, is at most ||x_c||^2 ||y_c'||^2. So
the standard error is at most sqrt(4/k) of the product of the norms; of vectors whose rows
have nothing in common it is sqrt((1 + cos^2)/k) by the cosine between the two.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.arrays import Floats, Ints
from mse_lab.probe.streams import stream

# Odd: else two places half of them apart would meet in two ways.
BUCKETS = 2**15 - 1

# All prompts' vectors together, on disk and, at the end, in memory.
EXACT_BYTES = 2**28


def vectors_fit(prompts: int, parameters: int) -> bool:
    """Whether P vectors of D float32 numbers are kept as they are."""
    return 4 * prompts * parameters <= EXACT_BYTES


class Whole:
    """A gradient kept as it is, in the order of the parameters."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        sizes = [parameter.numel() for parameter in parameters.values()]
        self._starts = dict(zip(parameters, np.cumsum([0, *sizes]).tolist(), strict=False))
        self.vector = np.zeros(sum(sizes), np.float32)

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Add a parameter's gradient, which comes in parts in order, at its place."""
        at = self._starts[name]
        for part in parts:
            numbers = part.detach().flatten().float().cpu().numpy()
            self.vector[at : at + len(numbers)] += numbers
            at += len(numbers)


def _rows(parts: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Cut numbers that come in parts into rows of one size, the last padded with zeros."""
    rest = torch.zeros(0)
    for part in parts:
        flat = part.detach().flatten()
        if len(rest):
            missing = size - len(rest)
            rest, flat = torch.cat([rest, flat[:missing]]), flat[missing:]
            if len(rest) < size:
                continue
            yield rest
        whole = len(flat) // size * size
        yield from flat[:whole].view(-1, size).unbind()
        rest = flat[whole:]
    if len(rest):
        yield torch.nn.functional.pad(rest, (0, size - len(rest)))


def _signs(rng: np.random.Generator, count: int) -> Ints:
    return 1 - 2 * rng.integers(2, size=count)


def _fold(parts: Iterable[Tensor], rng: np.random.Generator, buckets: int) -> Floats:
    """Add the rows of a parameter up, each with its signs and shifted around, (k,)."""
    signs, folded = torch.from_numpy(_signs(rng, buckets)), torch.zeros(2 * buckets)
    for count, row in enumerate(_rows(parts, buckets)):
        if not count:
            signs, folded = signs.to(row), folded.to(row)
        shift, negative = divmod(int(rng.integers(2 * buckets)), 2)
        # What goes beyond the last bucket is put around in the end.
        folded[shift : shift + buckets].addcmul_(row, signs, value=1 - 2 * negative)
    return np.asarray(folded.view(2, buckets).double().sum(0).cpu())


class Sketch:
    """A count-sketch of a gradient, (k,); the hash is of seed and parameter names alone."""

    def __init__(self, seed: int, buckets: int = BUCKETS) -> None:
        self._seed, self._sums = seed, np.zeros(buckets)

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Fold a parameter's gradient in."""
        self._sums += _fold(parts, stream(self._seed, "sketch", name), len(self._sums))

    @property
    def vector(self) -> NDArray[np.float32]:
        """The sketch."""
        return self._sums.astype(np.float32)


# Keeps a gradient, or a sketch of it, which comes a parameter at a time.
Keeper = Whole | Sketch


def describe(exact: bool) -> str:
    """Say how the products between prompts were computed, and how exact they are."""
    if exact:
        return "exact"
    low, high = BUCKETS**-0.5, (4 / BUCKETS) ** 0.5
    return (
        f"count-sketch of {BUCKETS} buckets: standard error of a product "
        f"{low:.4f} to {high:.4f} of the product of the norms"
    )
