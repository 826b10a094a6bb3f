"""Layout: what templates escape, and what they refuse."""

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from mse_lab.report.inline_svg import Drawing
from mse_lab.report.layout import MARKDOWN, TEMPLATES, lay_out


def part(text):
    """Fill in a line of a page that uses the elements of `parts.html`."""
    return TEMPLATES.from_string('{% import "parts.html" as parts %}' + text).render()


def test_texts_are_escaped_and_markup_is_kept():
    drawing = Drawing("0 0 1 1", 1, "what <it> shows", Markup("<g/>"))
    page = lay_out("figure4.html", drawings=[("<b>", drawing)])
    assert 'aria-label="what &lt;it&gt; shows"' in page
    assert "<g/></svg>" in page
    assert "<figcaption>&lt;b&gt;</figcaption>" in page


def test_no_text_begins_a_tag_in_markdown():
    cell = "{% macro cell(x) %}{{ x }}{% endmacro %}{{ cell(name) }}"
    texts = "{{ name }} " + cell + " {{ name|safe }}"
    line = "{% autoescape false %}" + texts + "{% endautoescape %}"
    written = MARKDOWN.from_string(line).render(name="a<script>")
    assert written == "a&lt;script> a&lt;script> a<script>"


def test_only_texts_for_terminals_are_left_as_they_are():
    escapes = {name: TEMPLATES.autoescape(name) for name in TEMPLATES.list_templates()}
    assert {name for name, so in escapes.items() if not so} == {
        "advice.md",
        "advice.txt",
        "along.txt",
        "claims.md",
    }
    assert TEMPLATES.autoescape(None)


def test_paths_break_at_their_joints():
    assert part('{{ parts.breakable("a/<b>_c") }}') == "a/<wbr>&lt;b&gt;_<wbr>c"


def test_cells():
    assert part("{{ parts.estimate((0.6234, 0.5666, 0.6852)) }}") == (
        '<data value="0.6234">0.623</data><small>(0.567 to 0.685)</small>'
    )
    assert part("{{ parts.estimate(none) }}{{ parts.share(none) }}") == "––"
    assert (
        part("{{ parts.share((0.62, 0.57, 0.69)) }}")
        == '<data value="0.62">62%</data><small>(57 to 69)</small>'
    )


def test_what_a_template_is_not_told_is_an_error():
    with pytest.raises(UndefinedError, match="drawings"):
        lay_out("figure4.html")
