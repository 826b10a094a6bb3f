"""The scores of one parameter, all its uses joined: inner products, and weighted sums.

A completion's score in a parameter is the sum over the uses of it. A tied matrix is looked
up in (row sums L) and multiplied with at the head (outer products O), so that its Gram
matrix has cross terms:

    <L_i + O_i, L_j + O_j> = <O_i, O_j> + <L_i, L_j> + <L_i, O_j> + <O_i, L_j>.

A weighted sum of scores sum_i w_i W_i is, of outer products, one matrix product over the
tokens of all completions,

    sum_i w_i sum_t d_it x_it' = sum_{t in prompt} (sum_i w_i d_it) x_t'
                                 + sum_i sum_{t after it} (w_i d_it) x_it',

where the prompt's tokens have the same inputs x_t in all of them. That is what a backward
pass of the weighted loss computes, so Gram matrix, norms and gradient come of one pass. No
more of the sum is formed at a time than a slice of the parameter's rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import torch
from torch import Tensor

from mse_lab.scores.factors import (
    LOW_PRECISION,
    Factor,
    OuterProducts,
    RowSums,
    at_least_float32,
    exact_factor,
    slices,
)
from mse_lab.scores.outer_products import Reduced, reduce_outer

# Parts of a slice in which the sum is formed: what keeps it finds it in the processor's
# cache, and its memory is not cleared anew each time.
PIECES = 16


def _reduce_rows(
    sums: RowSums, outer: OuterProducts | None, reference_RC: Tensor | None
) -> Reduced:
    """Reduce row sums, with the cross terms to the outer products of the same matrix.

    Only the rows that occur at all are formed, a slice of them at a time.
    """
    count, _, columns = sums.columns_NTC.shape
    reduced = Reduced.zero(count, sums.columns_NTC.device)
    occurring, place_NT = torch.unique(sums.index_NT, return_inverse=True)
    among = RowSums(place_NT, sums.columns_NTC)
    bytes_a_row = count * columns * sums.columns_NTC.element_size()
    for part in slices(len(occurring), bytes_a_row):
        rows, flat = occurring[part], among.form(part).flatten(1)
        reduced.add(flat, None if reference_RC is None else reference_RC[rows])
        if outer is not None:
            cross = (flat @ outer.form(rows).flatten(1).T).double()
            reduced.gram_NN.add_(cross + cross.T)
    return reduced


def _form_whole(factors: Sequence[Factor], shape: torch.Size) -> Tensor:
    """Form the gradients of any uses of a parameter whole, (N, D)."""
    everything = slice(0, shape[0])
    return torch.stack([one.form(everything) for one in factors]).sum(0).flatten(1)


def _reduce(
    factors: Sequence[Factor], reference: Tensor | None, shape: torch.Size
) -> Reduced:
    outer = [factor for factor in factors if isinstance(factor, OuterProducts)]
    sums = [factor for factor in factors if isinstance(factor, RowSums)]
    if len(outer) + len(sums) < len(factors):  # by the definition
        whole_ND = _form_whole(factors, shape)
        reduced = Reduced.zero(len(whole_ND), whole_ND.device)
        reduced.add(whole_ND, reference)
        return reduced
    product = OuterProducts.join(outer) if outer else None
    parts = [] if product is None else [reduce_outer(product, reference)]
    if sums:
        parts.append(_reduce_rows(RowSums.join(sums), product, reference))
    return reduce(Reduced.plus, parts)


@contextmanager
def _tensor_cores(factors: Sequence[Factor]) -> Iterator[None]:
    """Multiply what came in 16 bits on a GPU's tensor cores, which read it without loss.

    TF32 has the 10 bits of float16's mantissa and more than bfloat16's, and sums in
    float32; what is formed is rounded to them, as low-precision gradients are anyway.
    """
    tensors = [part for factor in factors for part in factor if isinstance(part, Tensor)]
    low = any(tensor.is_cuda and tensor.dtype in LOW_PRECISION for tensor in tensors)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if low else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def reduce_factors(
    factors: Sequence[Factor], reference: Tensor | None, shape: torch.Size
) -> Reduced:
    """Reduce the scores of one parameter, a factor for each use, to their inner products.

    Products of two gradients are summed in float32 or better, sums over slices in float64.
    """
    if reference is not None:
        reference = at_least_float32(reference)
    with _tensor_cores(factors):
        return _reduce([exact_factor(factor) for factor in factors], reference, shape)


def _sum_outer(outer: OuterProducts, weights_N: Tensor) -> Callable[[slice], Tensor]:
    """Give what forms rows (r, C) of the sum."""
    columns_NTC, shared = outer.columns_NTC, outer.shared
    columns = torch.cat([columns_NTC[0, :shared], *columns_NTC[:, shared:]])

    def form(part: slice) -> Tensor:
        rows_NTR = at_least_float32(outer.rows_NTR[..., part])
        weighted_NTR = rows_NTR * weights_N.to(rows_NTR)[:, None, None]
        # One product: a sum of two would be one more pass over numbers that are D in all.
        rows = torch.cat([weighted_NTR[:, :shared].sum(0), *weighted_NTR[:, shared:]])
        return rows.T @ columns

    return form


def _add_rows(total: Tensor, sums: RowSums, weights_N: Tensor, start: int) -> None:
    """Add row sums to the rows (r, C) of the sum that begin at `start`."""
    index, columns = sums.index_NT.flatten() - start, sums.columns_NTC.flatten(0, 1)
    weights = weights_N.to(columns).repeat_interleave(sums.index_NT.shape[1])
    inside = (index >= 0) & (index < len(total))
    total.index_add_(0, index[inside], columns[inside] * weights[inside, None])


def _by_rows(
    uses: Sequence[OuterProducts | RowSums], weights_N: Tensor, shape: torch.Size
) -> Iterator[Tensor]:
    """Form the sum over all uses, rows (r, C) at a time."""
    outers = [_sum_outer(use, weights_N) for use in uses if isinstance(use, OuterProducts)]
    sums = [use for use in uses if isinstance(use, RowSums)]
    for part in slices(shape[0], PIECES * 4 * shape[1]):
        size = part.stop - part.start, shape[1]
        total = outers[0](part) if outers else uses[0].columns_NTC.new_zeros(size)
        for form in outers[1:]:
            total += form(part)
        for one in sums:
            _add_rows(total, one, weights_N, part.start)
        yield total


def weighted_sum(
    factors: Sequence[Factor], weights_N: Tensor, shape: torch.Size
) -> Iterator[Tensor]:
    """Sum the scores of one parameter, a factor for each of its uses, with weights.

    Give the sum in parts, flat, in order; float32 or better.
    """
    uses = [exact_factor(factor) for factor in factors]
    known = [use for use in uses if isinstance(use, OuterProducts | RowSums)]
    if len(known) == len(uses):
        yield from (part.flatten() for part in _by_rows(known, weights_N, shape))
    else:
        whole_ND = _form_whole(uses, shape)
        yield weights_N.to(whole_ND) @ whole_ND
