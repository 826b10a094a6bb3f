"""Factors: what they stand for, formed by the definition, and joined."""

import pytest
import torch

from mse_lab.scores.factors import (
    Dense,
    OuterProducts,
    RoutedProducts,
    RowSums,
    join_completions,
)
from mse_lab.scores.tied_parameters import reduce_factors
from plain_scores import normal

# Fused experts: E slices of R x C, S slots of T tokens, two each.
N, T, S, E, R, C = 4, 5, 10, 3, 6, 7


def routed(generator, rows=S, columns=T):
    expert = torch.randint(0, E, (N, S), generator=generator)
    expert[0] = 1  # all of a completion to one
    left, right = normal(generator, N, rows, R), normal(generator, N, columns, C)
    return RoutedProducts(left, right, expert)


def formed(factor):
    """Form gradients by the definition, slot by slot."""
    whole = torch.zeros(N, E, R, C, dtype=torch.float64)
    if isinstance(factor, Dense):
        return factor.values
    for completion in range(N):
        for slot in range(S):
            expert = factor.expert_NS[completion, slot]
            row = factor.rows_NSR[completion, slot * factor.rows_NSR.shape[1] // S]
            column = factor.columns_NSC[completion, slot * factor.columns_NSC.shape[1] // S]
            whole[completion, expert] += torch.outer(row, column)
    return whole


@pytest.mark.parametrize(
    "uses",
    [
        (routed,),
        (lambda g: routed(g, T, S),),
        (routed, lambda g: routed(g, T, S)),
        (routed, lambda g: Dense(normal(g, N, E, R, C))),
    ],
    ids=["once", "other side", "twice", "with dense"],
)
def test_routed_products_equal_the_definition(uses):
    generator = torch.Generator().manual_seed(0)
    terms = [use(generator) for use in uses]
    reference = normal(generator, E, R, C)
    whole = sum(formed(term) for term in terms).flatten(1)
    reduced = reduce_factors(terms, reference)
    torch.testing.assert_close(reduced.gram_NN, whole @ whole.T)
    torch.testing.assert_close(reduced.products_N, whole @ reference.flatten())


def test_uses_are_joined_along_tokens_and_parts_along_completions():
    generator = torch.Generator().manual_seed(0)
    shape = torch.Size([R, C])
    for kind, left in (
        (OuterProducts, lambda: normal(generator, N, T, R)),
        (RowSums, lambda: torch.randint(0, R, (N, T), generator=generator)),
    ):
        one, other = (kind(left(), normal(generator, N, T, C)) for _ in range(2))
        both = [one.dense(shape), other.dense(shape)]
        torch.testing.assert_close(kind.join([one, other]).dense(shape), sum(both))
        joined = join_completions([one, other])
        torch.testing.assert_close(joined.dense(shape), torch.cat(both))


def test_rows_are_summed_by_index():
    """Tokens 0 and 2 of a completion are of row 1: 1 + 3 there, 2 in row 0."""
    sums = RowSums(torch.tensor([[1, 0, 1]]), torch.tensor([[[1.0], [2.0], [3.0]]]))
    assert sums.dense(torch.Size([3, 1])).tolist() == [[2, 4, 0]]
    assert sums.form(slice(1, 3))[0, :, 0].tolist() == [4, 0]
