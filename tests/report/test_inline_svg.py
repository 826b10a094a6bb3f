"""Inline SVG: what of a file stands on the page."""

import re

import pytest

from mse_lab.report.inline_svg import cut_out

FILE = (
    '<?xml version="1.0"?><svg xmlns="http://x" viewBox="0 0 90 60" width="90pt">'
    "<metadata>m</metadata><style>*{}</style><!-- c -->"
    '<path id="a" d="M 1.23456 2"/><use xlink:href="#a"/><g clip-path="url(#b)"/>'
    "<text>0.0002</text></svg>"
)


def test_drawings_are_cut_out_of_their_files():
    drawing = cut_out(FILE, "x-1", "alt")
    assert drawing.box == "0 0 90 60"
    # Points are 4/3 pixels, and may grow by 1.3: 90 x 4/3 x 1.3.
    assert drawing.width == 156
    assert '<path id="x-1-a" d="M 1.234 2"/><use href="#x-1-a"/>' in drawing.shapes
    assert "url(#x-1-b)" in drawing.shapes
    assert not re.search("http|metadata|style>|<!--", drawing.shapes)


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ("#000000", "currentColor"),
        ("#4c4c4c", "var(--soft)"),
        ("#e6e6e6", "var(--rule)"),
        ("#ffffff", "var(--ground)"),
        ("#0173b2", "var(--blue)"),
        ("#de8f05", "#de8f05"),
    ],
)
def test_neutral_colours_are_the_page_s(colour, expected):
    text = FILE.replace('id="a"', f'style="fill: {colour}; stroke: {colour}"')
    assert f"fill: {expected}; stroke: {expected}" in cut_out(text, "x-1", "alt").shapes


def test_texts_keep_their_digits():
    """A label of an axis is no coordinate."""
    assert "<text>0.0002</text>" in cut_out(FILE, "x-1", "alt").shapes
