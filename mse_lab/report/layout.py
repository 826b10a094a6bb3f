"""Layout: templates, tables, images and formulas of the page; every text is escaped."""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from mse_lab.formatting import EXPONENT, NONE, Interval, parts
from mse_lab.report.drawing import figure_bytes

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


TEMPLATES = Environment(
    loader=PackageLoader("mse_lab.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["typeset"] = typeset

# How much larger than on paper a figure is shown.
_ZOOM = 1.25


def lay_out(template: str, **context: Any) -> str:
    """Fill a template in."""
    return TEMPLATES.get_template(template).render(context)


class Table(NamedTuple):
    """Heads of columns, and rows of cells; the first cell names its row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def estimate_cell(interval: Interval | None) -> str:
    """Write a number above its interval."""
    if interval is None:
        return NONE
    return Markup("{}<small>{}</small>").format(*map(typeset, parts(interval)))


class Image(NamedTuple):
    """A drawing for the page: its data URI, its width in pixels, and what it shows."""

    source: str
    width: int
    alt: str


def draw_image(compose: Callable[[], Figure], alt: str) -> Image:
    """Compose a figure in the house style for the page."""
    drawing = figure_bytes(compose, "svg")
    points = re.search(rb'width="([\d.]+)pt"', drawing)
    if points is None:
        raise ValueError("a drawing without a width")
    source = f"data:image/svg+xml;base64,{b64encode(drawing).decode()}"
    return Image(source, round(float(points[1]) * 96 / 72 * _ZOOM), alt)
