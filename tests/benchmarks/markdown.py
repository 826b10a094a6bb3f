"""Tables in Markdown."""

from collections.abc import Sequence


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Write a table; the first column is text, the others are numbers.

    >>> print(table(["a", "b"], [["x", 1]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    lines = [head, *rows]
    written = [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
    written.insert(1, "|---|" + "--:|" * (len(head) - 1))
    return "\n".join(written)
