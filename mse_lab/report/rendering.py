"""Rendering: the parts of an answer as text for a screen, as Markdown and as HTML.

What is said is made elsewhere, as sentences, rows of texts and figures; how it looks is
said here alone. A part with a title stands apart from the others, its content indented;
parts without one follow each other.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mse_lab.formatting import WIDTH, wrap

PAGES = Environment(
    loader=PackageLoader("mse_lab.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


class Part(NamedTuple):
    """A part of an answer: sentences, then a table, then figures."""

    title: str = ""
    sentences: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    heads: Sequence[str] = ()
    align: str = ""  # `<` or `>` for each column; by default all to the left.
    figures: Sequence[Markup] = ()  # On a page only.


def _align(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Lay out rows of texts as columns, two spaces apart, a line each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:{side}{width}}"
            for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _blocks(rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Group the columns of a table that fit beside the first, which each block repeats."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    blocks, used = [[0]], first
    for column, needed in enumerate(others, 1):
        if used + 2 + needed > width and len(blocks[-1]) > 1:
            blocks.append([0])
            used = first
        blocks[-1].append(column)
        used += 2 + needed
    return blocks


def _table(part: Part, width: int, margin: int) -> list[str]:
    """Lay out the rows of a part.

    Where they are too wide, words in the last column hang in it; other columns that are too
    many stand below the first ones.
    """
    whole = [*([part.heads] if part.heads else []), *part.rows]
    rows = [[f"{' ' * margin}{first}", *others] for first, *others in whole]
    sides = part.align or "<" * len(rows[0])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    start = sum(widths[:-1]) + 2 * (len(widths) - 1)
    if sides[-1] == "<" and start <= width // 2:
        return [wrap(line, width, start) for line in _align(rows, sides)]
    lines = []
    for block in _blocks(rows, width):
        cells = [[row[column] for column in block] for row in rows]
        some = "".join(sides[column] for column in block)
        lines += [wrap(line, width, 4) for line in _align(cells, some)]
    return lines


def _lines(part: Part, width: int) -> list[str]:
    """Lay out a part without its title; a line that begins indented hangs."""
    margin = 2 if part.title else 0
    lines = []
    for sentence in part.sentences:
        hanging = 4 if sentence.startswith(" ") else margin
        lines.append(wrap(f"{' ' * margin}{sentence}", width, hanging))
    return lines + (_table(part, width, margin) if part.rows else [])


def as_text(parts: Sequence[Part], width: int = WIDTH) -> str:
    """Write parts for a screen.

    >>> print(as_text([Part("Sizes", ["Of one run."], [["G", "4"], ["rho", "16"]])]))
    Sizes
      Of one run.
      G    4
      rho  16
    >>> print(as_text([Part(rows=[["G", "1.0", "2.0"], ["rho", "3", "4"]])], width=9))
    G    1.0
    rho  3
    G    2.0
    rho  4
    """
    lines: list[str] = []
    for part in parts:
        title = [wrap(part.title, width)] if part.title else []
        lines += [*title, *_lines(part, width), *[""] * len(title)]
    return "\n".join(lines).rstrip()


def as_markdown(parts: Sequence[Part]) -> str:
    """Write titled parts as Markdown; what comes from files is no HTML in it.

    >>> print(as_markdown([Part("Sizes", ["< 4"], [["G", "4"]])]))
    ## Sizes
    <BLANKLINE>
    &lt; 4
    <BLANKLINE>
    |  |  |
    | --- | --- |
    | G | 4 |
    <BLANKLINE>
    """
    lines: list[str] = []
    for part in parts:
        lines += [f"## {part.title}", ""]
        lines += [line for sentence in part.sentences for line in (sentence, "")]
        if part.rows:
            heads = part.heads or [""] * len(part.rows[0])
            for row in (heads, ["---"] * len(heads), *part.rows):
                cells = (cell.strip().replace("|", "/") for cell in row)
                lines.append(f"| {' | '.join(cells)} |")
            lines.append("")
    return escape("\n".join(lines), quote=False)


def as_page(title: str, parts: Sequence[Part]) -> str:
    """Write parts as one HTML page."""
    return PAGES.get_template("page.html").render(title=title, parts=parts)
