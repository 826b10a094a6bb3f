"""Inline SVG: a figure -> a drawing that stands inside the page.

Ids are made the page's own, for they must differ between drawings; what belongs to a file
of its own (prologue, namespaces, metadata, a style sheet that would reach the whole page)
is taken out. Text stays text, in the page's font; black, white and greys become the page's
colours, so that a drawing is dark where the page is.
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

# Greys up to a brightness; on a dark page the blue is too dark, so it has a name, too.
_GREYS = {0x20: "currentColor", 0xA0: "var(--soft)", 0xF0: "var(--rule)"}
_COLOUR = re.compile(r"#(?:([0-9a-f]{2})\1\1|0173b2)\b")


class Drawing(NamedTuple):
    """View box, largest width in pixels, description and content of an `<svg>`."""

    box: str
    width: int
    alt: str
    shapes: Markup


def _on_page(found: re.Match[str]) -> str:
    """Name a colour of a drawing as the page does."""
    if found[1] is None:
        return "var(--blue)"
    grey = int(found[1], 16)
    return next((name for most, name in _GREYS.items() if grey <= most), "var(--ground)")


def cut_out(text: str, name: str, alt: str) -> Drawing:
    """Cut a drawing out of the text of an SVG file; the name makes its ids unique."""
    opening = _OPENING.search(text)
    if opening is None:
        raise ValueError(f"{name}: not a drawing, or one without a view box")
    inside = _DROPPED.sub("", text[opening.end() : text.rindex("</svg>")])
    inside = inside.replace("xlink:href", "href")
    inside = _COLOUR.sub(_on_page, inside)
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
