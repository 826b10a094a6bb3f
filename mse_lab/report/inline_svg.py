"""Inline SVG: a figure -> a drawing that stands inside the page.

Ids are made the page's own, for they must differ between drawings; what belongs to a file
of its own (prologue, namespaces, metadata, a style sheet that would reach the whole page)
is taken out. Text stays text, in the page's font.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.report.drawing import figure_bytes, legend_above

# Pixels a point on a screen, and how much a drawing may grow beyond its own size.
_PIXELS = 4 / 3
_GROWTH = 1.3

_OPENING = re.compile(r'<svg\b[^>]*viewBox="([^"]+)"[^>]*>')
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL)
_NAMED = re.compile(r'(\bid="|href="#|url\(#)')
# Of coordinates, inside tags; a text keeps its digits.
_LONG_DECIMALS = re.compile(r"(\d\.\d{3})\d+(?=[^<>]*>)")


class Drawing(NamedTuple):
    """View box, largest width in pixels, description and content of an `<svg>`."""

    box: str
    width: int
    alt: str
    shapes: Markup


def cut_out(text: str, name: str, alt: str) -> Drawing:
    """Cut a drawing out of the text of an SVG file; the name makes its ids unique."""
    opening = _OPENING.search(text)
    if opening is None:
        raise ValueError(f"{name}: not a drawing, or one without a view box")
    inside = _DROPPED.sub("", text[opening.end() : text.rindex("</svg>")])
    inside = inside.replace("xlink:href", "href")
    shapes = Markup(_LONG_DECIMALS.sub(r"\1", _NAMED.sub(rf"\g<1>{name}-", inside)))
    width = float(opening[1].split()[2]) * _PIXELS * _GROWTH
    return Drawing(opening[1], round(width), alt, shapes)


def inline(compose: Callable[[], Figure], name: str, alt: str) -> Drawing:
    """Compose a figure in the house style, and cut it out for the page."""
    drawn = figure_bytes(compose, "svg", **{"svg.fonttype": "none"})
    return cut_out(drawn.decode(), name, alt)


def inline_panel(
    draw: Callable[[Axes], None],
    name: str,
    alt: str,
    size: tuple[float, float] = (3.3, 2.9),
    **legend: Any,
) -> Drawing:
    """Draw one panel, of a size in inches, and cut it out for the page."""

    def compose() -> Figure:
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if axes.get_legend_handles_labels()[1]:
            legend_above(figure, 3, **legend)
        return figure

    return inline(compose, name, alt)
