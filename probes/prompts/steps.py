"""Integer arithmetic: expressions, drawn, written and worked out in steps.

The operations of an expression are carried out from the left, brackets first, and
written down one by one; the last number is said again at the end:

    9 - (2 + 3) + 4 =
    2 + 3 = 5 , 9 - 5 = 4 , 4 + 4 = 8 . 8

Whoever slips in a step goes on with the wrong number, and ends on another answer.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Ranges(NamedTuple):
    """Inclusive ranges that operands are drawn from.

    Attributes:
        terms: Operands of additions and subtractions.
        factors: Both factors of a multiplication.
        divisors: Divisor and quotient of a division; the divisor must not be 0.
    """

    terms: tuple[int, int]
    factors: tuple[int, int]
    divisors: tuple[int, int]


TINY = Ranges(terms=(0, 9), factors=(0, 9), divisors=(1, 9))
MEDIUM = Ranges(terms=(10, 99), factors=(3, 19), divisors=(3, 19))

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

    def sign(self) -> str:
        """Draw a plus or a minus, with equal chance."""
        return "+" if self.rng.random() < 0.5 else "-"

    def join(self, left: Expression, right: Expression) -> Operation:
        """Add or subtract."""
        return Operation(left, self.sign(), right)

    def product(self) -> Operation:
        """Draw a product of two factors."""
        factors = self.ranges.factors
        return Operation(self.pick(factors), "*", self.pick(factors))

    def quotient(self) -> Operation:
        """Draw a division that comes out even."""
        divisor, quotient = (self.pick(self.ranges.divisors) for _ in range(2))
        return Operation(divisor * quotient, "/", divisor)

    def two_terms(self) -> Operation:
        """Draw a sum or difference of two terms."""
        return self.join(self.term(), self.term())

    def three_terms(self) -> Operation:
        """Draw a sum of three terms: two steps."""
        return self.join(self.two_terms(), self.term())
