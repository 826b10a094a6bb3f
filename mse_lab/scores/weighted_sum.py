"""A weighted sum of the scores of one parameter, out of its factors: sum_i w_i W_i.

Of outer products it is one matrix product over the tokens of all completions,

    sum_i w_i sum_t d_it x_it' = sum_{t in prompt} (sum_i w_i d_it) x_t'
                                 + sum_i sum_{t after it} (w_i d_it) x_it',

where the prompt's tokens have the same inputs x_t in all of them. That is what a backward
pass of the weighted loss computes, so Gram matrix, norms and gradient come of one pass. No
more of the sum is formed at a time than a slice of the parameter's rows.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from mse_lab.scores.factors import (
    Factor,
    OuterProducts,
    RoutedProducts,
    RowSums,
    at_least_float32,
    exact_factor,
    slices,
)

# Parts of a slice in which the sum is formed: what keeps it finds it in the processor's
# cache, and its memory is not cleared anew each time.
PIECES = 16


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
    if len(uses) == 1 and isinstance(uses[0], RoutedProducts):
        for outer in uses[0].by_expert(shape[0]):
            yield _sum_outer(outer, weights_N)(slice(None)).flatten()
    elif len(known) == len(uses):
        yield from (part.flatten() for part in _by_rows(known, weights_N, shape))
    else:
        # Of any kind, by the definition.
        gradients = [use.dense(shape) for use in uses]
        yield torch.stack([weights_N.to(each) @ each for each in gradients]).sum(0)
