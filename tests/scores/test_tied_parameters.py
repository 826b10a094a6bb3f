"""Sums of uses of a parameter: looked up, multiplied with, routed, and as they are."""

import pytest
import torch

from models import random_policy
from mse_lab.scores import factors, tied_parameters
from mse_lab.scores import outer_products as products
from mse_lab.scores.factors import Dense, OuterProducts, RowSums
from mse_lab.scores.score_block import score_block
from mse_lab.scores.tied_parameters import reduce_factors
from plain_scores import (
    PROMPT,
    autograd_scores,
    normal,
    random_reference,
    relative_gap,
    some_completions,
)

N, T, R, C = 4, 5, 7, 3


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def outer(generator, tokens=T):
    return OuterProducts(normal(generator, N, tokens, R), normal(generator, N, tokens, C))


def rows(generator):
    index = torch.randint(0, R, (N, T), generator=generator)
    return RowSums(index, normal(generator, N, T, C))


def dense(factor):
    """Form a factor's gradients by the definition, one completion at a time."""
    whole = torch.zeros(N, R, C, dtype=torch.float64)
    for completion in range(N):
        if isinstance(factor, Dense):
            whole[completion] = factor.values[completion]
            continue
        for token in range(factor.columns_NTC.shape[1]):
            column = factor.columns_NTC[completion, token]
            if isinstance(factor, OuterProducts):
                whole[completion] += torch.outer(factor.rows_NTR[completion, token], column)
            else:
                whole[completion, factor.index_NT[completion, token]] += column
    return whole.flatten(1)


@pytest.mark.parametrize("cheaper", ["forming", "contracting"])
@pytest.mark.parametrize("slice_bytes", [1, 2**26], ids=["sliced", "whole"])
@pytest.mark.parametrize(
    "uses",
    [
        (outer,),
        (rows,),
        (outer, rows),
        (outer, outer, rows, rows),
        (lambda g: Dense(normal(g, N, R, C)), outer, rows),
    ],
    ids=["linear", "embedding", "tied", "used twice", "with dense"],
)
def test_reduction_equals_definition(monkeypatch, generator, cheaper, slice_bytes, uses):
    monkeypatch.setattr(products, "_forming_is_cheaper", lambda _: cheaper == "forming")
    monkeypatch.setattr(factors, "SLICE_BYTES", slice_bytes)
    terms = [use(generator) for use in uses]
    reference = normal(generator, R, C)
    whole = sum(dense(term) for term in terms)
    reduced = reduce_factors(terms, reference)
    torch.testing.assert_close(reduced.gram_NN, whole @ whole.T)
    torch.testing.assert_close(reduced.products_N, whole @ reference.flatten())


def test_low_precision_is_summed_in_float32(generator):
    term = outer(generator)
    low = OuterProducts(term.rows_NTR.bfloat16(), term.columns_NTC.bfloat16())
    exact = OuterProducts(low.rows_NTR.double(), low.columns_NTC.double())
    reference = normal(generator, R, C)
    torch.testing.assert_close(
        reduce_factors([low], reference.float()).gram_NN,
        reduce_factors([exact], reference).gram_NN,
        rtol=1e-5,
        atol=1e-5,
    )


def test_dropped_tied_cross_terms_are_seen(monkeypatch):
    """Negative control: without the cross terms of both uses the comparison fails."""
    policy = random_policy("gpt2", tied=True)
    completions = some_completions(policy)
    expected = autograd_scores(policy, completions)
    whole = tied_parameters._reduce_rows
    monkeypatch.setattr(
        tied_parameters,
        "_reduce_rows",
        lambda sums, outer, reference: whole(sums, None, reference),
    )
    found = score_block(policy, PROMPT, completions, random_reference(policy))
    assert relative_gap(found.gram_NN, expected @ expected.T) > 1e-3
