"""The scores of one parameter in factored form, and their inner products.

Backpropagation through y_t = A x_t gives a completion's gradient in the matrix A as a sum
of outer products over its tokens, sum_t d_t x_t', d_t the gradient in y_t. Inner products
of such gradients need not form them:

    <sum_t d_t x_t', sum_s e_s y_s'> = sum_ts <d_t, e_s> <x_t, y_s>.

Both ways are exact; `reduce_factors` takes the one with fewer operations. A tied matrix
collects the factors of all its uses, so its cross terms are part of the sum.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

# Formed gradients are handled in slices of at most this many bytes: large enough for
# matrix products at full speed, small beside the activations.
SLICE_BYTES = 2**26

# A contraction multiplies two T x T tables element by element, bound by memory and not
# arithmetic: about this many operations' worth for each element.
ELEMENTWISE_COST = 16


class OuterProducts(NamedTuple):
    """Gradient sum_t rows_t columns_t' of every completion, a matrix (R, C) each."""

    rows_NTR: Tensor
    columns_NTC: Tensor


class RowSums(NamedTuple):
    """Gradient whose row r is the sum of the columns at tokens t with index_t = r."""

    index_NT: Tensor
    columns_NTC: Tensor


class Dense(NamedTuple):
    """Gradient of every completion as it is, (N, *shape of the parameter)."""

    values: Tensor


Factor = OuterProducts | RowSums | Dense
Pair = TypeVar("Pair", OuterProducts, RowSums)


class Reduced(NamedTuple):
    """What is kept of the scores of one parameter.

    Attributes:
        gram_NN: Their Gram matrix, float64.
        products_N: Their inner products with the reference, float64.
    """

    gram_NN: Tensor
    products_N: Tensor


def _gram(left_ND: Tensor, right_ND: Tensor) -> Tensor:
    return (left_ND @ right_ND.T).double()


def _sliced(outer: OuterProducts) -> Iterator[tuple[slice, Tensor]]:
    """Form the gradients a slice of rows at a time: (rows, gradients (N, r, C))."""
    completions, _, columns = outer.columns_NTC.shape
    rows = outer.rows_NTR.shape[-1]
    bytes_a_row = completions * columns * outer.columns_NTC.element_size()
    step = max(1, SLICE_BYTES // bytes_a_row)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        yield part, outer.rows_NTR[..., part].mT @ outer.columns_NTC


def _reduce_formed(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    count = len(outer.columns_NTC)
    gram = outer.columns_NTC.new_zeros(count, count, dtype=torch.float64)
    products = gram.new_zeros(count)
    for part, gradients in _sliced(outer):
        flat = gradients.flatten(1)
        gram += _gram(flat, flat)
        products += (flat @ reference_RC[part].flatten()).double()
    return Reduced(gram, products)


def _reduce_contracted(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    rows, columns = outer
    count, tokens, _ = columns.shape
    all_rows, all_columns = rows.flatten(0, 1), columns.flatten(0, 1)
    gram = columns.new_zeros(count, count, dtype=torch.float64)
    step = max(1, SLICE_BYTES // (tokens * count * tokens * columns.element_size()))
    for start in range(0, count, step):
        part = slice(start, start + step)
        table = rows[part].flatten(0, 1) @ all_rows.T
        table *= columns[part].flatten(0, 1) @ all_columns.T
        gram[part] = table.view(-1, tokens, count, tokens).sum((1, 3)).double()
    products = torch.einsum("ntc,ntc->n", rows @ reference_RC, columns).double()
    return Reduced(gram, products)


def _forming_is_cheaper(outer: OuterProducts) -> bool:
    count, tokens, columns = outer.columns_NTC.shape
    rows = outer.rows_NTR.shape[-1]
    forming = count * (tokens + count) * rows * columns
    contracting = (count * tokens) ** 2 * (rows + columns + ELEMENTWISE_COST)
    return forming <= contracting


def _reduce_outer(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    reduce = _reduce_formed if _forming_is_cheaper(outer) else _reduce_contracted
    return reduce(outer, reference_RC)


def _row_sums(sums: RowSums) -> tuple[Tensor, Tensor]:
    """Form the rows that occur at all: (their numbers (U,), gradients (N, U, C))."""
    touched, place = torch.unique(sums.index_NT, return_inverse=True)
    count, _, columns = sums.columns_NTC.shape
    gradients = sums.columns_NTC.new_zeros(count, len(touched), columns)
    where = place[..., None].expand_as(sums.columns_NTC)
    return touched, gradients.scatter_add_(1, where, sums.columns_NTC)


def _reduce_rows(
    sums: RowSums, outer: OuterProducts | None, reference_RC: Tensor
) -> Reduced:
    """Reduce row sums, with the cross terms to the outer products of the same matrix."""
    touched, gradients = _row_sums(sums)
    flat = gradients.flatten(1)
    gram = _gram(flat, flat)
    if outer is not None:
        formed = outer.rows_NTR[..., touched].mT @ outer.columns_NTC
        cross = _gram(flat, formed.flatten(1))
        gram += cross + cross.T
    return Reduced(gram, (flat @ reference_RC[touched].flatten()).double())


def _reduce_dense(values_ND: Tensor, reference: Tensor) -> Reduced:
    return Reduced(_gram(values_ND, values_ND), (values_ND @ reference.flatten()).double())


def _as_dense(factor: Factor, shape: torch.Size) -> Tensor:
    """Form the gradients of a factor whole, (N, D)."""
    if isinstance(factor, Dense):
        return factor.values.flatten(1)
    if isinstance(factor, OuterProducts):
        return (factor.rows_NTR.mT @ factor.columns_NTC).flatten(1)
    touched, gradients = _row_sums(factor)
    whole = gradients.new_zeros(len(gradients), *shape)
    whole[:, touched] = gradients
    return whole.flatten(1)


def _at_least_float32(tensor: Tensor) -> Tensor:
    coarse = tensor.dtype in (torch.bfloat16, torch.float16)
    return tensor.float() if coarse else tensor


def _map(change: Callable[[Tensor], Tensor], factor: Factor) -> Factor:
    return type(factor)(*(change(tensor) for tensor in factor))


def _join(factors: Sequence[Pair]) -> Pair:
    """Join several uses of a matrix into one, along the tokens."""
    first, second = (torch.cat(parts, 1) for parts in zip(*factors, strict=True))
    return type(factors[0])(first, second)


def reduce_factors(factors: Sequence[Factor], reference: Tensor) -> Reduced:
    """Reduce the scores of one parameter to their inner products.

    Args:
        factors: One for each use of the parameter in the forward pass; a completion's
            score is their sum.
        reference: The reference gradient in this parameter, of its shape.

    Returns:
        Gram matrix and products with the reference. Products of two gradients are summed
        in float32 or better, sums over slices and parameters in float64.
    """
    reference = _at_least_float32(reference)
    factors = [_map(_at_least_float32, factor) for factor in factors]
    if any(isinstance(factor, Dense) for factor in factors):
        whole = torch.stack([_as_dense(factor, reference.shape) for factor in factors]).sum(
            0
        )
        return _reduce_dense(whole, reference)
    outers = [factor for factor in factors if isinstance(factor, OuterProducts)]
    sums = [factor for factor in factors if isinstance(factor, RowSums)]
    outer = _join(outers) if outers else None
    reduced = []
    if outer is not None:
        reduced.append(_reduce_outer(outer, reference))
    if sums:
        reduced.append(_reduce_rows(_join(sums), outer, reference))
    return Reduced(
        gram_NN=torch.stack([part.gram_NN for part in reduced]).sum(0),
        products_N=torch.stack([part.products_N for part in reduced]).sum(0),
    )
