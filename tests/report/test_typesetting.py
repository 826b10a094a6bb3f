"""Formulas, as a book writes them."""

from mse_lab.report.typesetting import typeset


def test_formulas():
    assert typeset("c1 G + c3/(G-1)") == "c₁ G + c₃/(G − 1)"
    assert typeset("nan, inf, 1.2e-05") == "–, ∞, 1.2 × 10⁻⁵"
