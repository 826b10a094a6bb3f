"""Typesetting: the formulas of a plain text as a book writes them."""

import re

from mse_lab.formatting import EXPONENT, NONE

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Replacements, made in this order, each in the result of those before.
_TYPESET = {
    r"\|\|(.+?)\|\|\^2": r"‖\1‖²",
    "Sigma_oracle": "Σ(oracle)",
    r"sqrt\(": "√(",
    "zeta": "ζ",
    "_i": "ᵢ",
    "_j": "ⱼ",
    "G-1": "G − 1",
    " - ": " − ",
    " x ": " × ",
    "->": "→",
    ">=": "≥",
    "c1": "c₁",
    "c2": "c₂",
    "c3": "c₃",
    r"\binf\b": "∞",
    r"\bnan\b": NONE,
}


def typeset(text: str) -> str:
    """Write the formulas of a plain text as a book would.

    >>> typeset("||W||^2 >= zeta, 1.2e-16")
    '‖W‖² ≥ ζ, 1.2 × 10⁻¹⁶'
    """
    for pattern, replacement in _TYPESET.items():
        text = re.sub(pattern, replacement, text)
    return EXPONENT.sub(
        lambda match: f" × 10{str(int(match[1])).translate(_SUPERSCRIPTS)}", text
    )
