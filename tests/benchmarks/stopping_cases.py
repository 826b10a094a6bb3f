"""Populations on which few completions are tried: their constants are known."""

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import random_prompts
from benchmarks.regret import bimodal, drawn_together, with_rare
from benchmarks.truths import Truth
from designs import scaled
from mse_lab.mse.budget import mse_times_budget
from populations import POPULATION, choose, population
from simulated import Design

SIZES = np.arange(2, 257)
FEWER = (4, 4)


def regrets_of(design: Design):
    """By how much each of `SIZES` costs more than the best of them."""
    cost = mse_times_budget("grpo", Truth(design).constants, SIZES)
    return cost / cost.min() - 1


def where_costs(size: int, regret: float) -> Design:
    """Shrink what tells gradients apart until a size below the best costs so much more."""
    plain, low, high = population(np.random.default_rng(1)), 0.1, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        design = drawn_together(plain, middle)
        larger = regrets_of(design)[size - 2] > regret
        low, high = (middle, high) if larger else (low, middle)
    return design


def _scaled(spread: float) -> Design:
    rng = np.random.default_rng(2)
    scales = np.exp(spread * rng.standard_normal(POPULATION))
    return scaled(population(np.random.default_rng(1)), scales)


def _with_giants() -> Design:
    """One prompt of 60 has scores five times as large."""
    scales = np.where(np.random.default_rng(7).random(POPULATION) < 1 / 60, 5.0, 1.0)
    return scaled(population(np.random.default_rng(1)), scales)


class Case(NamedTuple):
    """A population, and how it is sampled."""

    make: Any
    most: tuple[int, int] | None = None
    one_in: int = 0  # How rare the prompts are that carry c1, or c1 to c3; 0 if not.
    # How many prompts there are, where they are a set; 0 for a distribution.
    size: int = 0


def _rare(one_in: int, size: int) -> dict[str, Case]:
    make = partial(with_rare, one_in, size)
    return {f"1 in {one_in}, scores x{size}": Case(make, one_in=one_in)}


def _named(name: str):
    return partial(random_prompts.population, name)


def _sets() -> dict[str, Case]:
    """List sets of prompts, the first of some populations, without and with a rare kind."""
    sizes = (
        *((36, "V 0.1 to 0.9"), (36, "half easy, half hard"), (36, "heavy lengths")),
        *((200, "V 0.1 to 0.9"), (200, "half easy, half hard"), (200, "heavy lengths")),
    )
    sets = {
        f"these {size}: {name}": Case(partial(_first, size, _named(name)), size=size)
        for size, name in sizes
    }
    for size in (60, 200):
        make = partial(_first, size, partial(with_rare, 20, 3))
        sets[f"these {size}: 1 in 20, scores x3"] = Case(make, size=size)
    return sets


def _first(size: int, make: Any) -> Design:
    return choose(make(), np.arange(size))


CASES = {
    "V 0.1 to 0.9": Case(_named("V 0.1 to 0.9")),
    "the same, 4 + 4 differentiated": Case(_named("V 0.1 to 0.9"), most=FEWER),
    "weak g": Case(_named("weak g")),
    "graded": Case(_named("graded")),
    "half easy, half hard": Case(_named("half easy, half hard")),
    "both, scores e^(0.8 N)": Case(
        lambda: scaled(
            bimodal(np.random.default_rng(3)),
            np.exp(0.8 * np.random.default_rng(5).standard_normal(POPULATION)),
        )
    ),
    "heavy lengths": Case(_named("heavy lengths")),
    "V near 0 or 1 on 70%": Case(_named("V near 0 or 1 on 70%")),
    "V 0.01 to 0.12": Case(_named("V 0.01 to 0.12")),
    "tails tied to V": Case(_named("tails tied to V")),
    "rho = 1, rare, heavy": Case(_named("rho = 1, rare, heavy")),
    "scores e^(1.5 N)": Case(partial(_scaled, 1.5)),
    "one of 60 five times as large": Case(_with_giants, one_in=60),
    "G = 4 costs 6% more": Case(partial(where_costs, 4, 0.06)),
    "G = 8 costs 6% more": Case(partial(where_costs, 8, 0.06)),
    "little tells gradients apart": Case(
        lambda: drawn_together(population(np.random.default_rng(1)), 0.15)
    ),
    "nothing does (c1 = 0)": Case(
        lambda: drawn_together(population(np.random.default_rng(1)), 0.0)
    ),
    **_sets(),
    **_rare(20, 2),
    **_rare(20, 3),
    **_rare(40, 4),
    **_rare(100, 6),
}


@cache
def made(name: str) -> Design:
    """Make the population of a case."""
    return CASES[name].make()
