"""Inner products of sums of outer products, in the cheapest of three exact ways.

Forming the gradients takes N T R C multiplications, contracting tokens with tokens

    <sum_t d_t x_t', sum_s e_s y_s'> = sum_ts <d_t, e_s> <x_t, y_s>

N^2 T^2 (R + C). A prompt's tokens have the same inputs x_t in all its completions. With an
orthonormal basis Q of their span every x splits into Q Q'x and a rest, which is zero for
the prompt's tokens:

    sum_t d_t x_t' = (sum_t d_t (Q'x_t)') Q' + sum_{t > prompt} d_t rest_t'.

The two parts are orthogonal, so their Gram matrices add up, and each is small where the
prompt is short beside the matrix and the completions are shorter still.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from mse_lab.scores import factors
from mse_lab.scores.factors import OuterProducts, at_least_float32, slices

# A contraction multiplies two T x T tables element by element, bound by memory and not
# arithmetic: about this many operations' worth for each element.
ELEMENTWISE_COST = 64

# A Gram matrix is computed in PANELS panels where each has PANEL_ROWS rows or more.
PANELS, PANEL_ROWS = 4, 128

# A GPU takes about a millisecond for an orthonormal basis, whatever its size: the time of
# this many multiplications.
BASIS_COST = {"cuda": 10**11}


class Reduced(NamedTuple):
    """Gram matrix of the scores of one parameter, and their products with the reference.

    Where no reference is given its products are zero.
    """

    gram_NN: Tensor
    products_N: Tensor

    @classmethod
    def zero(cls, count: int, device: torch.device) -> "Reduced":
        """Start sums over slices."""
        gram_NN = torch.zeros(count, count, dtype=torch.float64, device=device)
        return cls(gram_NN, gram_NN.new_zeros(count))

    def add(self, flat_ND: Tensor, reference: Tensor | None) -> None:
        """Add the products of a slice of the gradients, in place."""
        self.gram_NN.add_((flat_ND @ flat_ND.T).double())
        if reference is not None:
            self.products_N.add_((flat_ND @ reference.flatten()).double())

    def plus(self, other: "Reduced") -> "Reduced":
        """Add the inner products of orthogonal gradients, or of other slices."""
        return Reduced(self.gram_NN + other.gram_NN, self.products_N + other.products_N)


def _sizes(outer: OuterProducts) -> tuple[int, int, int, int]:
    """N completions, T tokens, R rows, C columns."""
    count, tokens, columns = outer.columns_NTC.shape
    return count, tokens, outer.rows_NTR.shape[-1], columns


def _forming(N: int, T: int, R: int, C: int) -> int:
    """Multiplications of forming the gradients and their Gram matrix."""
    return N * (T + N) * R * C


def _contracting(N: int, T: int, R: int, C: int) -> int:
    """Multiplications of contracting tokens with tokens."""
    return (N * T) ** 2 * (R + C + ELEMENTWISE_COST)


def _least(*sizes: int) -> int:
    return min(_forming(*sizes), _contracting(*sizes))


def _row_slices(outer: OuterProducts, bytes_a_row: int) -> Iterator[slice]:
    return slices(outer.rows_NTR.shape[-1], bytes_a_row)


@lru_cache(maxsize=2)
def _workspace(size: int, device: torch.device) -> Tensor:
    """Keep memory for a slice: if it were freed each time, it would be cleared anew."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def _reduce_formed(outer: OuterProducts, reference_RC: Tensor | None) -> Reduced:
    """Form the gradients a slice of their rows at a time, (N, r, C)."""
    columns_NTC = outer.columns_NTC
    count, _, columns = columns_NTC.shape
    reduced = Reduced.zero(count, columns_NTC.device)
    bytes_a_row = count * columns * columns_NTC.element_size()
    space = _workspace(max(factors.SLICE_BYTES, bytes_a_row), columns_NTC.device)
    for part in _row_slices(outer, bytes_a_row):
        rows_NTR = at_least_float32(outer.rows_NTR[..., part])
        shape = count, rows_NTR.shape[-1], columns
        gradients = space.view(rows_NTR.dtype)[: math.prod(shape)].view(shape)
        torch.bmm(rows_NTR.mT, columns_NTC, out=gradients)
        reduced.add(
            gradients.flatten(1), None if reference_RC is None else reference_RC[part]
        )
    return reduced


def _with_later(each_NTD: Tensor, part: slice) -> Tensor:
    """Compute <d_t, e_s> for tokens t of some completions, s of these and later ones."""
    return each_NTD[part].flatten(0, 1) @ each_NTD[part.start :].flatten(0, 1).T


def _row_products(outer: OuterProducts, part: slice) -> Tensor:
    """Compute the same products of rows, which may be computed slice by slice."""
    rows = outer.rows_NTR
    if isinstance(rows, Tensor):
        return _with_later(rows, part)
    tables = (
        _with_later(at_least_float32(rows[..., some]), part)
        for some in _row_slices(outer, 4 * rows.shape[0] * rows.shape[1])
    )
    return torch.as_tensor(sum(tables))


def _panels(count: int, tokens: int, bytes_each: int) -> Iterator[slice]:
    """Cut completions into panels, each multiplied with itself and the later ones.

    A Gram matrix is symmetric: of four panels 10 products in 16 are needed, where they are
    large enough for matrix products at full speed.
    """
    panels = PANELS if count * tokens >= PANELS * PANEL_ROWS else 1
    largest = next(slices(count, tokens * count * tokens * bytes_each)).stop
    step = min(-(-count // panels), largest)
    return (slice(at, min(at + step, count)) for at in range(0, count, step))


def _reduce_contracted(outer: OuterProducts, reference_RC: Tensor | None) -> Reduced:
    columns, (count, tokens, _, _) = outer.columns_NTC, _sizes(outer)
    gram, products = Reduced.zero(count, columns.device)
    for part in _panels(count, tokens, columns.element_size()):
        table = _row_products(outer, part)
        table *= _with_later(columns, part)
        by_token = table.view(part.stop - part.start, tokens, -1, tokens)
        inner = by_token.sum((1, 3)).double()
        gram[part, part.start :], gram[part.start :, part] = inner, inner.T
    if reference_RC is None:
        return Reduced(gram, products)
    for part in _row_slices(outer, count * tokens * columns.element_size()):
        pulled = at_least_float32(outer.rows_NTR[..., part]) @ reference_RC[part]
        products += torch.einsum("ntc,ntc->n", pulled, columns).double()
    return Reduced(gram, products)


def _forming_is_cheaper(outer: OuterProducts) -> bool:
    return _forming(*_sizes(outer)) <= _contracting(*_sizes(outer))


def _splitting_is_cheaper(outer: OuterProducts) -> bool:
    (N, T, R, C), S = _sizes(outer), outer.shared
    if not 0 < S < min(T, C):
        return False
    basis = S * C * (2 * S + N * (T - S) + R)
    fixed = BASIS_COST.get(outer.columns_NTC.device.type, 0)
    split = _least(N, T, R, S) + _least(N, T - S, R, C) + basis + fixed
    return split < _least(N, T, R, C)


def _reduce_whole(outer: OuterProducts, reference_RC: Tensor | None) -> Reduced:
    reduce = _reduce_formed if _forming_is_cheaper(outer) else _reduce_contracted
    return reduce(outer, reference_RC)


def _reduce_split(outer: OuterProducts, reference_RC: Tensor | None) -> Reduced:
    """Split columns by the span of the shared ones: coordinates in it, and rests."""
    rows, columns, shared = outer
    basis_CS, triangle_SS = torch.linalg.qr(columns[0, :shared].mT)
    after = columns[:, shared:]
    coordinates = after @ basis_CS
    rest = after - coordinates @ basis_CS.mT
    # The shared columns' own coordinates are what the decomposition gives with the basis.
    first = triangle_SS.mT.expand(len(columns), -1, -1)
    inside = OuterProducts(rows, torch.cat([first, coordinates], 1))
    turned_RS = None if reference_RC is None else reference_RC @ basis_CS
    return _reduce_whole(inside, turned_RS).plus(
        _reduce_whole(OuterProducts(rows[:, shared:], rest), reference_RC)
    )


def reduce_outer(outer: OuterProducts, reference_RC: Tensor | None) -> Reduced:
    """Reduce outer products of float32 or better to their inner products."""
    reduce = _reduce_split if _splitting_is_cheaper(outer) else _reduce_whole
    return reduce(outer, reference_RC)
