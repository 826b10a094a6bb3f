"""Integer-arithmetic problems of the five categories of arXiv 2603.01162, section 5.1.

A problem is drawn by choosing a category uniformly, then its operands. The paper does
not give the operand ranges; they are arguments here. Answers are integers, divisions
come out even. Problems that are worked out in steps have five categories of their own.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from probes.prompts.steps import TINY, Operation, Ranges, Steps, evaluate, write


class Problem(NamedTuple):
    """A problem, which ends in `` =`` but for a sum's; its integer answer; its category."""

    problem: str
    answer: int
    category: str


Categories = Mapping[str, Callable[[Steps], Operation]]

PAPERS: Categories = {
    "two-step": Steps.two_terms,
    "three-step": Steps.three_terms,
    "multiplication": Steps.product,
    "division": Steps.quotient,
    # Its outer sign is drawn before what stands in brackets.
    "parentheses": lambda draw: Operation(draw.term(), draw.sign(), draw.two_terms()),
}
WORKED: Categories = {
    "three-term": Steps.three_terms,
    "four-term": lambda draw: draw.join(draw.three_terms(), draw.term()),
    "parentheses": lambda draw: draw.join(
        draw.join(draw.term(), draw.two_terms()), draw.term()
    ),
    "product": lambda draw: draw.join(draw.product(), draw.term()),
    "quotient": lambda draw: draw.join(draw.quotient(), draw.term()),
}


def draw_expression(
    ranges: Ranges, rng: np.random.Generator, categories: Categories
) -> tuple[Operation, str]:
    """Draw an expression and its category, uniform over the five."""
    category = list(categories)[rng.integers(len(categories))]
    return categories[category](Steps(ranges, rng)), category


def draw_problem(
    ranges: Ranges, rng: np.random.Generator, categories: Categories = PAPERS
) -> Problem:
    """Draw one problem.

    Args:
        ranges: Inclusive operand ranges.
        rng: Source of randomness; the only one.
        categories: The five that it may be of.

    Returns:
        The problem with its answer and category.

    >>> draw_problem(TINY, np.random.default_rng(3))
    Problem(problem='0 + (1 - 8) =', answer=-7, category='parentheses')
    """
    expression, category = draw_expression(ranges, rng, categories)
    return Problem(f"{write(expression)} =", evaluate(expression), category)


def draw_sum(rng: np.random.Generator) -> Problem:
    """Draw a sum or difference of 1 to 12, never negative, without `` =``."""
    draw = Steps(TINY, rng)
    large, small = sorted((draw.pick((1, 12)) for _ in range(2)), reverse=True)
    sign = draw.sign()
    if sign == "+" and rng.random() < 0.5:
        large, small = small, large
    drawn = Operation(large, sign, small)
    category = "addition" if sign == "+" else "subtraction"
    return Problem(write(drawn), evaluate(drawn), category)


def draw_distinct(
    count: int, draw: Callable[[np.random.Generator], Problem], rng: np.random.Generator
) -> list[Problem]:
    """Draw `count` problems, no two alike."""
    problems: dict[str, Problem] = {}
    while len(problems) < count:
        problem = draw(rng)
        problems.setdefault(problem.problem, problem)
    return list(problems.values())
