"""Inner products between the reference gradients of different prompts.

The aggregate's ||g||^2, c1 and an aggregate bias need Gamma_xx' = <rbar(x), rbar(x')> off
the diagonal. Where P D numbers fit, every rbar is kept as it is. Else each is kept as a
count-sketch (Charikar, Chen and Farach-Colton 2002): every number is added, with a sign, to
one of k buckets, the same hash for all prompts.

The vector of all parameters is cut into rows of k numbers. Row c has a random sign u_c and
a random shift o_c, place a of every row a random sign v_a: number a of row c goes to bucket
a + o_c with the sign u_c v_a, so that a row takes one pass over its numbers. With rows x_c
and y_c of two vectors a product of sketches is their product and, places counted modulo k,

    sum_{c != c'} u_c u_c' B_cc',  B_cc' = sum_a v_a v_{a+d} x_{c,a} y_{c',a+d},

d = o_c - o_c'. By the u its mean is zero, and its variance at most twice the mean of
sum B_cc'^2. By the v and with k odd the square is the sum of the squares, or, for one d in
k, d = 0, the square of the sum. Each, summed over d, is at most ||x_c||^2 ||y_c'||^2. So
the standard error is at most sqrt(4/k) of the product of the norms; of vectors whose rows
have nothing in common it is sqrt((1 + cos^2)/k) by the cosine between the two.

Gradients come as products of factors, sum_t d_t x_t'. With the entries of d hashed to a
places first, fewer numbers would be formed: a of R rows. But then whole rows of a matrix
meet, in step where its gradient has rank one, and the bound is sqrt(2/a + 4/k): for 144 of
576 rows 0.12, where forming them all has 0.011.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.arrays import Ints
from mse_lab.data.streams import stream

# Odd: else two places half of them apart would meet in two ways.
BUCKETS = 2**15 - 1

# Of sketches of single scores, a block of which is in memory at a time.
SCORE_BUCKETS = 2**20 - 1

# Rows that a GPU folds at once: some 30 MB of float32.
GPU_ROWS = 256

# All prompts' vectors together, on disk and, at the end, in memory.
EXACT_BYTES = 2**28


def vectors_fit(prompts: int, parameters: int) -> bool:
    """Whether P vectors of D float32 numbers are kept as they are."""
    return 4 * prompts * parameters <= EXACT_BYTES


def _starts(parameters: Mapping[str, Tensor]) -> tuple[dict[str, int], int]:
    """Give the place of each parameter in the vector of all, and the vector's size."""
    sizes = [parameter.numel() for parameter in parameters.values()]
    *starts, size = np.cumsum([0, *sizes]).tolist()
    return dict(zip(parameters, starts, strict=True)), size


class Whole:
    """A gradient kept as it is, in the order of the parameters."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._starts, size = _starts(parameters)
        self.vector = np.zeros(size, np.float32)

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Add a parameter's gradient, which comes in parts in order, at its place."""
        at = self._starts[name]
        for part in parts:
            numbers = part.detach().flatten().float().cpu().numpy()
            self.vector[at : at + len(numbers)] += numbers
            at += len(numbers)


def _signs(rng: np.random.Generator, count: int) -> Ints:
    return 1 - 2 * rng.integers(2, size=count)


class Sketch:
    """A count-sketch of a gradient, (k,); the hash is of the seed and the sizes alone."""

    def __init__(
        self, parameters: Mapping[str, Tensor], seed: int, buckets: int = BUCKETS
    ) -> None:
        self._starts, size = _starts(parameters)
        rng = stream(seed, "sketch")
        self._signs = torch.from_numpy(_signs(rng, buckets)).float()
        # The shift of each row, and its sign.
        self._turns = rng.integers(2 * buckets, size=-(-size // buckets)).tolist()
        self._sums = torch.zeros(2 * buckets)

    def _fold(self, at: int, flat: Tensor) -> None:
        """Add numbers from place `at` of the vector on, by row."""
        buckets = len(self._signs)
        # In float32 or better: rounding is far below the error of a sketch.
        wide = torch.promote_types(self._sums.dtype, flat.dtype)
        self._sums = self._sums.to(flat.device, wide)
        self._signs = self._signs.to(self._sums)
        while len(flat):
            row, place = divmod(at, buckets)
            whole = 0 if place else min(len(flat) // buckets, self._together(flat.device))
            end = whole * buckets if whole > 1 else buckets - place
            part, flat = flat[:end].to(self._signs), flat[end:]
            if whole > 1:
                self._add_rows(row, part.view(whole, buckets))
            else:
                self._add_part(row, place, part)
            at += len(part)

    @staticmethod
    def _together(device: torch.device) -> int:
        """How many rows are folded at once: on a GPU a call costs more than a row."""
        return 1 if device.type == "cpu" else GPU_ROWS

    def _add_part(self, row: int, place: int, part: Tensor) -> None:
        """Add numbers of one row from a place on."""
        shift, negative = divmod(self._turns[row], 2)
        signs = self._signs[place : place + len(part)]
        # What goes beyond the last bucket is put around in the end.
        to = self._sums[place + shift : place + shift + len(part)]
        to.addcmul_(part, signs, value=1 - 2 * negative)

    def _add_rows(self, row: int, rows_RK: Tensor) -> None:
        """Add whole rows, in an order of additions that is always the same."""
        count, buckets = rows_RK.shape
        turns_R = torch.tensor(self._turns[row : row + count], device=rows_RK.device)
        bucket_K = torch.arange(buckets, device=rows_RK.device)
        place_RK = (bucket_K - turns_R[:, None] // 2) % buckets
        signs_R = (1 - 2 * (turns_R % 2)).to(rows_RK)
        self._sums[:buckets] += signs_R @ (rows_RK * self._signs).gather(1, place_RK)

    def add(self, name: str, parts: Iterable[Tensor]) -> None:
        """Fold a parameter's gradient in."""
        at = self._starts[name]
        for part in parts:
            self._fold(at, part.detach().flatten())
            at += part.numel()

    @property
    def vector(self) -> NDArray[np.float32]:
        """The sketch."""
        return self._sums.view(2, -1).sum(0).float().cpu().numpy()


# Keeps a gradient, or a sketch of it, which comes a parameter at a time.
Keeper = Whole | Sketch


def describe_products(exact: bool, buckets: int = BUCKETS) -> str:
    """Say how products were computed, and how exact they are."""
    if exact:
        return "exact"
    low, high = buckets**-0.5, (4 / buckets) ** 0.5
    return (
        f"count-sketch of {buckets} buckets: standard error of a product "
        f"{low:.4f} to {high:.4f} of the product of the norms"
    )
