"""Layout: templates, tables and images of the page; every text is escaped."""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from mse_lab.formatting import NONE, Interval, parts
from mse_lab.report.drawing import figure_bytes
from mse_lab.report.typesetting import typeset

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
