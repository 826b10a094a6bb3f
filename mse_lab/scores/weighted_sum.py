"""A weighted sum of the scores of one parameter, out of its factors: sum_i w_i W_i.

Of outer products it is one matrix product over the tokens of all completions,

    sum_i w_i sum_t d_it x_it' = sum_{t in prompt} (sum_i w_i d_it) x_t'
                                 + sum_i sum_{t after it} (w_i d_it) x_it',

where the prompt's tokens have the same inputs x_t in all of them. That is what a backward
pass of the weighted loss computes, so Gram matrix, norms and gradient come of one pass. No
more of the sum is formed at a time than a slice of the parameter's rows.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mse_lab.scores.factors import (
    Factor,
    OuterProducts,
    RoutedProducts,
    RowSums,
    at_least_float32,
    exact,
    slices,
)


def _sum_outer(outer: OuterProducts, weights_N: Tensor, part: slice) -> Tensor:
    """Rows `part` of the sum, (r, C)."""
    rows_NTR = at_least_float32(outer.rows_NTR[..., part])
    weighted_NTR = rows_NTR * weights_N.to(rows_NTR)[:, None, None]
    columns_NTC, shared = outer.columns_NTC, outer.shared
    own = weighted_NTR[:, shared:].flatten(0, 1).T @ columns_NTC[:, shared:].flatten(0, 1)
    if not shared:
        return own
    return own + weighted_NTR[:, :shared].sum(0).T @ columns_NTC[0, :shared]


def _sum_rows(sums: RowSums, weights_N: Tensor, part: slice) -> Tensor:
    """Rows `part` of the sum, (r, C), from row sums."""
    index, columns = sums.index_NT.flatten(), sums.columns_NTC.flatten(0, 1)
    weights = weights_N.to(columns).repeat_interleave(sums.index_NT.shape[1])
    inside = (index >= part.start) & (index < part.stop)
    total = columns.new_zeros(part.stop - part.start, columns.shape[-1])
    weighted = columns[inside] * weights[inside, None]
    return total.index_add_(0, index[inside] - part.start, weighted)


def _whole(factor: Factor, weights_N: Tensor, shape: torch.Size) -> Tensor:
    """Form the sum of a use of any kind by the definition."""
    gradients_ND = factor.dense(shape)
    return weights_N.to(gradients_ND) @ gradients_ND


def weighted_sum(
    factors: Sequence[Factor], weights_N: Tensor, shape: torch.Size
) -> Iterator[Tensor]:
    """Sum the scores of one parameter with weights.

    Args:
        factors: One for each use of the parameter in the forward pass.
        weights_N: A weight for each completion.
        shape: Of the parameter.

    Yields:
        The sum in parts, flat, in order; float32 or better.
    """
    uses = [exact(factor) for factor in factors]
    if len(uses) == 1 and isinstance(uses[0], RoutedProducts):
        for outer in uses[0].by_expert(shape[0]):
            yield _sum_outer(outer, weights_N, slice(None)).flatten()
    elif all(isinstance(use, OuterProducts | RowSums) for use in uses):
        for part in slices(shape[0], 4 * shape[1:].numel()):
            rows = (
                _sum_outer(use, weights_N, part)
                if isinstance(use, OuterProducts)
                else _sum_rows(use, weights_N, part)
                for use in uses
                if isinstance(use, OuterProducts | RowSums)
            )
            yield torch.stack(list(rows)).sum(0).flatten()
    else:
        yield torch.stack([_whole(use, weights_N, shape) for use in uses]).sum(0)
