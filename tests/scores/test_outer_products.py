"""Factored scores: forming, contracting and slicing give the same inner products."""

import pytest
import torch

from mse_lab.scores import outer_products as products
from mse_lab.scores.factors import OuterProducts
from mse_lab.scores.tied_parameters import reduce_factors
from plain_scores import normal
from scores.test_tied_parameters import C, N, R, outer


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def with_shared_columns(generator, tokens, shared, rows, columns):
    whole = OuterProducts(
        normal(generator, N, tokens, rows), normal(generator, N, tokens, columns), shared
    )
    whole.columns_NTC[:, :shared] = whole.columns_NTC[0, :shared].clone()
    return whole


@pytest.mark.parametrize("cheaper", ["forming", "contracting"])
@pytest.mark.parametrize("shared", [1, 2, 4], ids=lambda count: f"{count} shared")
def test_split_by_the_prompts_inputs_changes_nothing(
    monkeypatch, generator, shared, cheaper
):
    monkeypatch.setattr(products, "_forming_is_cheaper", lambda _: cheaper == "forming")
    monkeypatch.setattr(products, "_splitting_is_cheaper", lambda _: True)
    term = with_shared_columns(generator, 6, shared, R, 5)
    reference = normal(generator, R, 5)
    whole = term.rows_NTR.mT @ term.columns_NTC
    reduced = reduce_factors([term], reference)
    torch.testing.assert_close(
        reduced.gram_NN, whole.flatten(1) @ whole.flatten(1).T, rtol=1e-10, atol=1e-10
    )
    torch.testing.assert_close(
        reduced.products_N, whole.flatten(1) @ reference.flatten(), rtol=1e-10, atol=1e-10
    )


def test_split_of_equal_inputs(monkeypatch, generator):
    """A prompt that repeats a token: its span has fewer dimensions than tokens."""
    monkeypatch.setattr(products, "_splitting_is_cheaper", lambda _: True)
    term = with_shared_columns(generator, 6, 4, R, 5)
    term.columns_NTC[:, 1:4] = term.columns_NTC[:, :1]
    whole = (term.rows_NTR.mT @ term.columns_NTC).flatten(1)
    reduced = reduce_factors([term], normal(generator, R, 5))
    torch.testing.assert_close(reduced.gram_NN, whole @ whole.T, rtol=1e-10, atol=1e-10)


def test_split_of_columns_that_differ_would_be_seen(monkeypatch, generator):
    """Negative control: tokens that are not shared must not be declared so."""
    monkeypatch.setattr(products, "_splitting_is_cheaper", lambda _: True)
    term = outer(generator)._replace(shared=2)
    whole = (term.rows_NTR.mT @ term.columns_NTC).flatten(1)
    reduced = reduce_factors([term], normal(generator, R, C))
    assert (reduced.gram_NN - whole @ whole.T).abs().max() > 0.1


def test_split_where_the_prompt_is_short_beside_the_matrix(generator):
    """By cost: 60 prompt tokens and 4 of a completion split a 512 x 512, not a 32 x 32."""
    wide = with_shared_columns(generator, 64, 60, 512, 512)
    assert products._splitting_is_cheaper(wide)
    assert not products._splitting_is_cheaper(
        with_shared_columns(generator, 64, 60, 32, 32)
    )
    assert not products._splitting_is_cheaper(wide._replace(shared=0))
