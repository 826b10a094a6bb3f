"""Factors of one parameter: every kind of use, in every way of reducing, by definition."""

import pytest
import torch

from mse_lab.scores import factors
from mse_lab.scores import outer_products as products
from mse_lab.scores.factors import Dense, OuterProducts, RowSums
from mse_lab.scores.parameter_scores import reduce_factors, weighted_sum
from plain_scores import normal

# Completions, tokens, rows and columns.
N, T, R, C = 4, 6, 7, 5
MATRIX = torch.Size([R, C])
WEIGHTS = torch.tensor([1.0, -2.0, 0.5, 0.0]).double()


def outer(g, shared=0, repeated=False):
    """Of `shared` tokens, the prompt's, all completions have the same columns."""
    columns_NTC = normal(g, N, T, C)
    columns_NTC[:, :shared] = columns_NTC[0, :shared].clone()
    if repeated:
        columns_NTC[:, 1:shared] = columns_NTC[:, :1]
    return OuterProducts(normal(g, N, T, R), columns_NTC, shared)


def rows(g):
    return RowSums(torch.randint(0, R, (N, T), generator=g), normal(g, N, T, C))


def dense(g):
    return Dense(normal(g, N, *MATRIX))


def by_definition(factor, shape):
    """Form gradients one completion and one token at a time, (N, D)."""
    if isinstance(factor, Dense):
        return factor.values.flatten(1)
    whole = torch.zeros(N, *shape, dtype=torch.float64)
    for n in range(N):
        for token, column in enumerate(factor.columns_NTC[n]):
            if isinstance(factor, OuterProducts):
                whole[n] += torch.outer(factor.rows_NTR[n, token], column)
            else:
                whole[n, factor.index_NT[n, token]] += column
    return whole.flatten(1)


USES = {
    "linear": (outer,),
    "shared": (lambda g: outer(g, 1),),
    "shared, more": (lambda g: outer(g, 4),),
    "a prompt that repeats a token": (lambda g: outer(g, 4, repeated=True),),
    "embedding": (rows,),
    "tied": (outer, rows),
    "used twice": (outer, outer, rows, rows),
    "with dense": (dense, outer, rows),
}


@pytest.mark.parametrize("slice_bytes", [1, 160, 2**26])
@pytest.mark.parametrize("way", ["form", "contract", "split, form", "split, contract"])
@pytest.mark.parametrize("name", USES)
def test_every_use_in_every_way(monkeypatch, name, way, slice_bytes):
    """The Gram matrix, products with a reference, and a weighted sum."""
    monkeypatch.setattr(factors, "SLICE_BYTES", slice_bytes)
    monkeypatch.setattr(products, "_forming_is_cheaper", lambda _: "form" in way)
    monkeypatch.setattr(
        products, "_splitting_is_cheaper", lambda one: "split" in way and one.shared > 0
    )
    generator = torch.Generator().manual_seed(0)
    terms, reference = [use(generator) for use in USES[name]], normal(generator, *MATRIX)
    whole_ND = sum(by_definition(term, MATRIX) for term in terms)
    reduced = reduce_factors(terms, reference, MATRIX)
    torch.testing.assert_close(reduced.gram_NN, whole_ND @ whole_ND.T)
    torch.testing.assert_close(reduced.products_N, whole_ND @ reference.flatten())
    total = torch.cat(list(weighted_sum(terms, WEIGHTS, MATRIX)))
    torch.testing.assert_close(total, WEIGHTS @ whole_ND)


def test_columns_that_are_not_shared_must_not_be_declared_so(monkeypatch):
    """Negative control."""
    monkeypatch.setattr(products, "_splitting_is_cheaper", lambda _: True)
    generator = torch.Generator().manual_seed(0)
    term = outer(generator)._replace(shared=2)
    whole_ND = by_definition(term, MATRIX)
    reduced = reduce_factors([term], normal(generator, R, C), MATRIX)
    assert (reduced.gram_NN - whole_ND @ whole_ND.T).abs().max() > 0.1


@pytest.mark.parametrize(
    ("size", "shared", "split"), [(512, 60, True), (32, 60, False), (512, 0, False)]
)
def test_a_prompt_is_split_off_where_it_is_short_beside_the_matrix(size, shared, split):
    """By cost, of 60 prompt tokens and 4 of each completion."""
    both = (torch.zeros(N, 64, size) for _ in range(2))
    assert products._splitting_is_cheaper(OuterProducts(*both, shared)) == split


def test_low_precision_is_summed_in_float32():
    generator = torch.Generator().manual_seed(0)
    term, reference = outer(generator), normal(generator, R, C)
    low = OuterProducts(term.rows_NTR.bfloat16(), term.columns_NTC.bfloat16())
    exact = OuterProducts(low.rows_NTR.double(), low.columns_NTC.double())
    found, expected = (
        reduce_factors([one], reference.to(dtype), MATRIX).gram_NN
        for one, dtype in ((low, torch.float32), (exact, torch.float64))
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
