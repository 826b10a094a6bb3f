"""Layout: what templates escape, cells of tables, and images of the page."""

from base64 import b64decode

import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from mse_lab.report.layout import (
    TEMPLATES,
    Image,
    Table,
    draw_image,
    estimate_cell,
    lay_out,
    typeset,
)


def test_texts_are_escaped():
    page = lay_out("figure4.html", images=[("<b>", Image("data:,", 1, "what <it> shows"))])
    assert 'alt="what &lt;it&gt; shows"' in page
    assert "<figcaption>&lt;b&gt;</figcaption>" in page


def test_cells():
    assert estimate_cell((0.6234, 0.5666, 0.6852)) == "0.62<small>(0.57 to 0.69)</small>"
    assert estimate_cell((1.2e-5, 1.1e-5, 1.3e-5)).startswith("1.20 × 10⁻⁵<small>")
    assert estimate_cell(None) == "–"


def test_a_table_keeps_markup_and_escapes_texts():
    macros = TEMPLATES.get_template("parts.html").module
    table = macros.table(Table(["", "<G>"], [["a", estimate_cell((0.5, 0.4, 0.6))]]), "b")
    assert '<th scope="col">&lt;G&gt;</th>' in table
    assert '<th scope="row">a</th>' in table
    assert "<td>0.50<small>" in table


def test_an_image_is_the_drawing_itself():
    image = draw_image(lambda: Figure(figsize=(3, 2)), "empty")
    kind, _, content = image.source.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert b"<svg" in b64decode(content)
    assert image.width == 360


def test_what_a_template_is_not_given_is_an_error():
    with pytest.raises(UndefinedError, match="images"):
        lay_out("figure4.html")


def test_formulas():
    assert typeset("c1 G + c3/(G-1)") == "c₁ G + c₃/(G − 1)"
    assert typeset("nan, inf, 1.2e-05") == "–, ∞, 1.2 × 10⁻⁵"
