"""The scores of one parameter in factored form: a kind of factor for each kind of use.

Backpropagation through y_t = A x_t gives a completion's gradient in the matrix A as a sum
of outer products over its tokens, sum_t d_t x_t', d_t the gradient in y_t; a lookup gives
row sums. Anything else has its gradient as it is. A factor holds those of all N
completions.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

# Formed gradients are handled in slices of at most this many bytes: large enough for
# matrix products at full speed, small beside the activations.
SLICE_BYTES = 2**26

LOW_PRECISION = (torch.bfloat16, torch.float16)


def slices(count: int, bytes_each: int) -> Iterator[slice]:
    """Cut so many rows of so many bytes each into slices."""
    step = max(1, SLICE_BYTES // bytes_each)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def at_least_float32(tensor: Tensor) -> Tensor:
    """Give a tensor whose products are summed in float32 or better."""
    return tensor.float() if tensor.dtype in LOW_PRECISION else tensor


class OuterProducts(NamedTuple):
    """Gradient sum_t rows_t columns_t' of every completion, a matrix (R, C) each.

    The columns of the first `shared` tokens, those of the prompt, are the same for all.
    """

    rows_NTR: Any  # A tensor, or what computes `[..., part]` when it is asked for.
    columns_NTC: Tensor
    shared: int = 0

    def form(self, part: slice | Tensor) -> Tensor:
        """Form a part of the rows of the gradients, (N, r, C)."""
        return at_least_float32(self.rows_NTR[..., part]).mT @ self.columns_NTC

    @classmethod
    def join(cls, uses: Sequence[Self]) -> "OuterProducts":
        """Join uses of a matrix, along the tokens: shared ones of several are not first."""
        if len(uses) == 1:
            return uses[0]
        rows = torch.cat([use.rows_NTR[..., :] for use in uses], 1)
        return cls(rows, torch.cat([use.columns_NTC for use in uses], 1))


class RowSums(NamedTuple):
    """Gradient whose row r is the sum of the columns at tokens t with index_t = r."""

    index_NT: Tensor
    columns_NTC: Tensor

    def form(self, part: slice) -> Tensor:
        """Form the rows of a range of indices, (N, r, C)."""
        inside = (self.index_NT >= part.start) & (self.index_NT < part.stop)
        columns = torch.where(inside[..., None], self.columns_NTC, 0)
        where = torch.where(inside, self.index_NT - part.start, 0)[..., None]
        formed = columns.new_zeros(len(columns), part.stop - part.start, columns.shape[-1])
        return formed.scatter_add_(1, where.expand_as(columns), columns)

    @classmethod
    def join(cls, uses: Sequence[Self]) -> Self:
        """Join uses of a table, along the tokens."""
        return cls(*(torch.cat(each, 1) for each in zip(*uses, strict=True)))


class Dense(NamedTuple):
    """Gradient of every completion as it is, (N, *shape of the parameter)."""

    values: Tensor

    def form(self, part: slice) -> Tensor:
        """Give some rows of the gradients, (N, r, ...)."""
        return self.values[:, part]


Factor = OuterProducts | RowSums | Dense


def exact_factor(factor: Factor) -> Factor:
    """Give a factor whose products are summed in float32 or better."""
    parts: list[Any] = [
        at_least_float32(part) if isinstance(part, Tensor) else part for part in factor
    ]
    return type(factor)(*parts)
