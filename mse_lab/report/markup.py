"""Markup: HTML elements. What is not markup already is escaped, whatever its source."""

import re
from collections.abc import Mapping, Sequence
from html import escape


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def join(*parts: str) -> Html:
    """Put markup and plain text in a row; plain text is escaped.

    >>> join("a < b, ", Html("<b>c</b>"))
    'a &lt; b, <b>c</b>'
    """
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def element(name: str, *content: str, **attributes: str) -> Html:
    """Make an element.

    Args:
        name: Its tag.
        content: What it holds; plain text is escaped.
        attributes: Its attributes, `class_` for class and `aria_label` for aria-label; one
            whose value is empty stands without a value.

    >>> element("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    listed = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + (f'="{escape(value)}"' if value else "")
        for key, value in attributes.items()
    )
    return Html(f"<{name}{listed}>{join(*content)}</{name}>")


def paragraph(*content: str, class_: str = "") -> Html:
    """Make a paragraph."""
    return element("p", *content, **({"class_": class_} if class_ else {}))


def breakable(text: str) -> Html:
    """Let a path or a dotted name break at its joints.

    >>> breakable("a/b")
    'a/<wbr>b'
    """
    return Html(re.sub(r"(?<=[/_:])", "<wbr>", escape(text, quote=False)))


def bullets(items: Sequence[str]) -> Html:
    """Make a list of points."""
    return element("ul", *(element("li", item) for item in items))


def _scrolling(label: str, head: Sequence[str], rows: Sequence[Html]) -> Html:
    """Make a table that scrolls by itself where it is wider than the page."""
    heads = element("tr", *(element("th", cell, scope="col") for cell in head))
    whole = element("table", element("thead", heads), element("tbody", *rows))
    return element(
        "div", whole, class_="scroll", role="region", aria_label=label, tabindex="0"
    )


def _row(first: str, cells: Sequence[Html]) -> Html:
    return element("tr", element("th", first, scope="row"), *cells)


def table(label: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Make a table.

    Args:
        label: What it shows, for those who do not see it.
        head: The heads of its columns.
        rows: Its cells; the first of each row is the row's head.
    """
    body = [_row(first, [element("td", cell) for cell in cells]) for first, *cells in rows]
    return _scrolling(label, head, body)


def side_by_side(
    label: str, columns: Sequence[Mapping[str, str]], names: Sequence[str], *, merge: bool
) -> Html:
    """Make a table of named facts, a column for each run.

    Args:
        label: What it shows, for those who do not see it.
        columns: Each run's facts by name; one that a run has not is left empty.
        names: The runs' names.
        merge: Whether a fact that is the same in all runs stands once, across them.
    """
    facts = dict.fromkeys(fact for column in columns for fact in column)
    rows = []
    for fact in facts:
        told = [column.get(fact, "") for column in columns]
        if merge and len(told) > 1 and len(set(told)) == 1:
            cells = [element("td", told[0], colspan=str(len(told)))]
        else:
            cells = [element("td", one) for one in told]
        rows.append(_row(fact, cells))
    whole = _scrolling(label, ["", *(breakable(name) for name in names)], rows)
    return element("div", whole, class_="facts", style=f"--runs:{len(names)}")


def figure(drawing: Html, caption: str) -> Html:
    """Set a drawing on a card with its caption."""
    card = element("div", drawing, class_="card")
    return element("figure", card, element("figcaption", caption))


def article(title: str, *content: str, key: str) -> Html:
    """Make the part of a section that is about one run."""
    return element("article", element("h3", title), *content, id=key)
