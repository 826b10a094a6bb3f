"""Vector drawings: a figure -> SVG that stands inside the page.

Ids are made the page's own, for they must differ between drawings; what belongs to a file
of its own (prologue, namespaces, metadata, a style sheet that would reach the whole page)
is taken out. Text stays text, in the page's font.
"""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from mse_lab.report.figure_4 import STYLE, write_figure
from mse_lab.report.markup import Html, element

# Pixels a point on a screen, and how much a drawing may grow beyond its own size.
_PIXELS = 4 / 3
_GROWTH = 1.3

_OPENING = re.compile(r"<svg\b[^>]*>")
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL)
_NAMED = re.compile(r'(\bid="|href="#|url\(#)')
_LONG_DECIMALS = re.compile(r"(\d\.\d{3})\d+")


def _size(opening: str) -> tuple[str, float]:
    """View box and width in points of a drawing."""
    box = re.search(r'viewBox="([^"]+)"', opening)
    if box is None:
        raise ValueError(f"a drawing without a view box: {opening}")
    return box[1], float(box[1].split()[2])


def embed(text: str, name: str, alt: str) -> Html:
    """Make a drawing part of the page.

    Args:
        text: An SVG file.
        name: Precedes all its ids; unique on the page.
        alt: What it shows, in words.
    """
    opening = _OPENING.search(text)
    if opening is None:
        raise ValueError(f"{name}: not a drawing")
    box, width = _size(opening[0])
    inside = _DROPPED.sub("", text[opening.end() : text.rindex("</svg>")])
    inside = inside.replace("xlink:href", "href")
    inside = _LONG_DECIMALS.sub(r"\1", _NAMED.sub(rf"\g<1>{name}-", inside))
    return element(
        "svg",
        element("title", alt),
        Html(inside),
        viewBox=box,
        role="img",
        stroke_linejoin="round",
        style=f"max-width:{width * _PIXELS * _GROWTH:.0f}px",
    )


def inline(draw: Callable[[Path], None], name: str, alt: str) -> Html:
    """Let a function draw an SVG file, and make it part of the page."""
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "mse_lab"}
    with TemporaryDirectory() as folder, mpl.rc_context(settings):
        path = Path(folder) / "drawing.svg"
        draw(path)
        return embed(path.read_text(encoding="utf-8"), name, alt)


def inline_figure(compose: Callable[[Figure], None], name: str, alt: str) -> Html:
    """Compose a figure in the house style, and make it part of the page."""

    def draw(path: Path) -> None:
        with mpl.rc_context(STYLE):
            figure = Figure(layout="constrained")
            compose(figure)
            write_figure(figure, path)

    return inline(draw, name, alt)
