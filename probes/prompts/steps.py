"""Integer arithmetic of two or three steps, and how it is worked out.

The operations of a problem are carried out from the left, brackets first, and
written down one by one; the last number is said again at the end:

    9 - (2 + 3) + 4 =
    2 + 3 = 5 , 9 - 5 = 4 , 4 + 4 = 8 . 8

Whoever slips in a step goes on with the wrong number, and ends on another answer.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probes.prompts.arithmetic import Problem, Ranges

APPLY: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "/": int.__floordiv__,
}


class Operation(NamedTuple):
    """A sum, difference, product or quotient of integers or of further operations."""

    left: "Operation | int"
    sign: str
    right: "Operation | int"


Expression = Operation | int

# The error of a step, nearly always 0.
Slip = Callable[[], int]


def no_slip() -> int:
    """Make no error."""
    return 0


def _carry_out(expression: Expression, slip: Slip, steps: list[str]) -> int:
    """Work out an expression, appending its steps, and return what comes out."""
    if isinstance(expression, int):
        return expression
    left = _carry_out(expression.left, slip, steps)
    right = _carry_out(expression.right, slip, steps)
    result = APPLY[expression.sign](left, right) + slip()
    steps.append(f"{left} {expression.sign} {right} = {result}")
    return result


def work_out(expression: Expression, slip: Slip = no_slip) -> str:
    """Write the working of an expression, the number that comes out at its end.

    Args:
        expression: What is worked out.
        slip: The error of the next step; no author slips before a division comes out even,
            for divisions come first.

    >>> work_out(Operation(Operation(8, "/", 4), "-", 3))
    '8 / 4 = 2 , 2 - 3 = -1 . -1'
    >>> slips = iter([1, 0])
    >>> work_out(Operation(7, "-", Operation(2, "*", 3)), lambda: next(slips))
    '2 * 3 = 7 , 7 - 7 = 0 . 0'
    """
    steps: list[str] = []
    result = _carry_out(expression, slip, steps)
    return f"{' , '.join(steps)} . {result}"


def evaluate(expression: Expression) -> int:
    """Work out an expression without writing anything down."""
    return _carry_out(expression, no_slip, [])


def write(expression: Expression) -> str:
    """Write an expression; a sum or difference on the right stands in brackets.

    >>> write(Operation(Operation(9, "-", Operation(2, "+", 3)), "+", 4))
    '9 - (2 + 3) + 4'
    """
    if isinstance(expression, int):
        return str(expression)
    right = write(expression.right)
    if isinstance(expression.right, Operation) and expression.right.sign in "+-":
        right = f"({right})"
    return f"{write(expression.left)} {expression.sign} {right}"


class Steps:
    """Draws parts of expressions, from one source of randomness."""

    def __init__(self, ranges: Ranges, rng: np.random.Generator) -> None:
        self.ranges, self.rng = ranges, rng

    def pick(self, bounds: tuple[int, int]) -> int:
        """Draw an integer between bounds, both included."""
        return int(self.rng.integers(*bounds, endpoint=True))

    def term(self) -> int:
        """Draw an operand of additions and subtractions."""
        return self.pick(self.ranges.terms)

    def join(self, left: Expression, right: Expression) -> Operation:
        """Add or subtract, with equal chance."""
        return Operation(left, "+" if self.rng.random() < 0.5 else "-", right)

    def product(self) -> Operation:
        """Draw a product of two factors."""
        factors = self.ranges.factors
        return Operation(self.pick(factors), "*", self.pick(factors))

    def quotient(self) -> Operation:
        """Draw a division that comes out even."""
        divisor, quotient = (self.pick(self.ranges.divisors) for _ in range(2))
        return Operation(divisor * quotient, "/", divisor)

    def three_terms(self) -> Operation:
        """Draw a sum of three terms: two steps."""
        return self.join(self.join(self.term(), self.term()), self.term())


CATEGORIES: dict[str, Callable[[Steps], Operation]] = {
    "three-term": Steps.three_terms,
    "four-term": lambda draw: draw.join(draw.three_terms(), draw.term()),
    "parentheses": lambda draw: draw.join(
        draw.join(draw.term(), draw.join(draw.term(), draw.term())), draw.term()
    ),
    "product": lambda draw: draw.join(draw.product(), draw.term()),
    "quotient": lambda draw: draw.join(draw.quotient(), draw.term()),
}


def draw_expression(ranges: Ranges, rng: np.random.Generator) -> tuple[Operation, str]:
    """Draw an expression and its category, uniform over the five."""
    category = list(CATEGORIES)[rng.integers(len(CATEGORIES))]
    return CATEGORIES[category](Steps(ranges, rng)), category


def draw_worked_problem(ranges: Ranges, rng: np.random.Generator) -> Problem:
    """Draw a problem of several steps, with its answer and category."""
    expression, category = draw_expression(ranges, rng)
    return Problem(f"{write(expression)} =", evaluate(expression), category)
