"""Integer-arithmetic problems of the five categories of arXiv 2603.01162, section 5.1.

A problem is drawn by choosing a category uniformly, then its operands. The paper does
not give the operand ranges; they are arguments here. Answers are integers, divisions
come out even.
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


class Problem(NamedTuple):
    """A problem, which ends in `` =`` but for a sum's; its integer answer; its category."""

    problem: str
    answer: int
    category: str


def _pick(bounds: tuple[int, int], rng: np.random.Generator) -> int:
    return int(rng.integers(bounds[0], bounds[1], endpoint=True))


def _sign(rng: np.random.Generator) -> tuple[str, int]:
    return ("+", 1) if rng.random() < 0.5 else ("-", -1)


def _two_step(ranges: Ranges, rng: np.random.Generator) -> tuple[str, int]:
    a, b = _pick(ranges.terms, rng), _pick(ranges.terms, rng)
    op, sign = _sign(rng)
    return f"{a} {op} {b}", a + sign * b


def _three_step(ranges: Ranges, rng: np.random.Generator) -> tuple[str, int]:
    text, value = _two_step(ranges, rng)
    c, (op, sign) = _pick(ranges.terms, rng), _sign(rng)
    return f"{text} {op} {c}", value + sign * c


def _multiplication(ranges: Ranges, rng: np.random.Generator) -> tuple[str, int]:
    a, b = _pick(ranges.factors, rng), _pick(ranges.factors, rng)
    return f"{a} * {b}", a * b


def _division(ranges: Ranges, rng: np.random.Generator) -> tuple[str, int]:
    divisor, quotient = _pick(ranges.divisors, rng), _pick(ranges.divisors, rng)
    return f"{divisor * quotient} / {divisor}", quotient


def _parentheses(ranges: Ranges, rng: np.random.Generator) -> tuple[str, int]:
    a, (op, sign) = _pick(ranges.terms, rng), _sign(rng)
    text, value = _two_step(ranges, rng)
    return f"{a} {op} ({text})", a + sign * value


def draw_sum(rng: np.random.Generator) -> Problem:
    """Draw a sum or difference of 1 to 12, never negative, without `` =``."""
    large, small = sorted((_pick((1, 12), rng), _pick((1, 12), rng)), reverse=True)
    op, sign = _sign(rng)
    if sign > 0 and rng.random() < 0.5:
        large, small = small, large
    category = "addition" if sign > 0 else "subtraction"
    return Problem(f"{large} {op} {small}", large + sign * small, category)


CATEGORIES: dict[str, Callable[[Ranges, np.random.Generator], tuple[str, int]]] = {
    "two-step": _two_step,
    "three-step": _three_step,
    "multiplication": _multiplication,
    "division": _division,
    "parentheses": _parentheses,
}


def draw_problem(ranges: Ranges, rng: np.random.Generator) -> Problem:
    """Draw one problem, its category uniform over the five.

    Args:
        ranges: Inclusive operand ranges.
        rng: Source of randomness; the only one.

    Returns:
        The problem with its answer and category.

    >>> draw_problem(TINY, np.random.default_rng(3))
    Problem(problem='0 + (1 - 8) =', answer=-7, category='parentheses')
    """
    category = list(CATEGORIES)[rng.integers(len(CATEGORIES))]
    text, answer = CATEGORIES[category](ranges, rng)
    return Problem(f"{text} =", answer, category)


def draw_distinct(
    count: int, draw: Callable[[np.random.Generator], Problem], rng: np.random.Generator
) -> list[Problem]:
    """Draw `count` problems, no two alike."""
    problems: dict[str, Problem] = {}
    while len(problems) < count:
        problem = draw(rng)
        problems.setdefault(problem.problem, problem)
    return list(problems.values())
