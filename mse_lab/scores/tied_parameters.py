"""All uses of a parameter joined, and its scores reduced to inner products.

A completion's score in a parameter is the sum over the uses of it. A tied matrix is looked
up in (row sums L) and multiplied with at the head (outer products O), so that its Gram
matrix has cross terms:

    <L_i + O_i, L_j + O_j> = <O_i, O_j> + <L_i, L_j> + <L_i, O_j> + <O_i, L_j>.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import torch
from torch import Tensor

from mse_lab.scores.factors import (
    LOW_PRECISION,
    Factor,
    OuterProducts,
    RoutedProducts,
    RowSums,
    at_least_float32,
    exact_factor,
    slices,
)
from mse_lab.scores.outer_products import Reduced, reduce_outer


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


def _reduce_routed(
    routed: RoutedProducts, reference_ERC: Tensor | None, experts: int
) -> Reduced:
    """Reduce expert by expert: one expert's gradients, of its own tokens, at a time."""
    references = [None] * experts if reference_ERC is None else reference_ERC
    reduced = [
        reduce_outer(outer, reference_RC)
        for outer, reference_RC in zip(routed.by_expert(experts), references, strict=True)
        if outer.columns_NTC.shape[1]  # the expert had tokens
    ]
    return reduce(Reduced.plus, reduced)


def _reduce(
    factors: Sequence[Factor], reference: Tensor | None, shape: torch.Size
) -> Reduced:
    routed = [factor for factor in factors if isinstance(factor, RoutedProducts)]
    outer = [factor for factor in factors if isinstance(factor, OuterProducts)]
    sums = [factor for factor in factors if isinstance(factor, RowSums)]
    factored = len(routed) + len(outer) + len(sums)
    if len(routed) > 1 or factored < len(factors):  # by the definition
        whole_ND = torch.stack([one.dense(shape) for one in factors]).sum(0)
        reduced = Reduced.zero(len(whole_ND), whole_ND.device)
        reduced.add(whole_ND, reference)
        return reduced
    product = OuterProducts.join(outer) if outer else None
    parts = [_reduce_routed(one, reference, shape[0]) for one in routed]
    if product is not None:
        parts.append(reduce_outer(product, reference))
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
