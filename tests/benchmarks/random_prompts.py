"""Populations of prompts unlike one another, from which the prompts of runs are drawn."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from scipy import optimize

from mse_lab.mse.regime import aggregate_place
from populations import choose, tilt
from simulated import DIMENSIONS, KINDS, Design

PROMPTS = 3000


@dataclass(frozen=True)
class Source:
    """A population and the size of a run's pools; what is `extreme` need not be covered."""

    make: Callable[[], Design]
    prompts: int = 60
    reference: int = 256
    blocks: int = 2
    largest: int = 64
    extreme: bool = False

    def draw(self, population: Design, rng: np.random.Generator):
        """Draw the prompts of a run, and its pools."""
        own = choose(population, rng.integers(0, population.prompts, self.prompts))
        return own, own.draw(rng, self.reference, self.blocks, self.largest)


def make_prompts(seed, value_P, kinds=KINDS, tails=0.0, right=0.5, shared=2.0, spread=1.0):
    """Make prompts of given values with a part of the gradient in common.

    Args:
        seed: Of all draws.
        value_P: About the chance of being right: the most kinds that fit below it are.
        kinds: Kinds of completions of each prompt.
        tails: Log-normal spread of the scores' lengths, of all prompts or of each.
        right: Length of right completions' scores over that of wrong ones.
        shared: Length of the common part along the centred reward.
        spread: Of the Dirichlet distribution of the kinds' chances; small for few kinds.
    """
    rng = np.random.default_rng(seed)
    value_P1 = np.asarray(value_P)[:, None]
    wanted = rng.dirichlet(np.full(kinds, spread), size=len(value_P))
    is_right = wanted.cumsum(-1) <= value_P1
    is_right[:, 0], is_right[:, -1] = True, False
    # The chances of right and of wrong kinds add up to V and 1 - V.
    total = np.where(
        is_right,
        np.where(is_right, wanted, 0).sum(-1, keepdims=True) / value_P1,
        np.where(is_right, 0, wanted).sum(-1, keepdims=True) / (1 - value_P1),
    )
    probability = wanted / total
    tail_P1 = np.broadcast_to(tails, value_P1.shape[:1])[:, None]
    size = 2 * np.exp(tail_P1 * rng.standard_normal(is_right.shape))
    size *= np.where(is_right, right, 1.0)
    score = size[..., None] * rng.standard_normal((*is_right.shape, DIMENSIONS))
    score -= (probability[..., None] * score).sum(1, keepdims=True)
    common = np.zeros((len(value_P), DIMENSIONS))
    common[:, 0] = shared
    return tilt(Design(probability, score, is_right * 1.0), common)


def uncorrelated(seed, low, high, tails, signal=0.04, radii=12):
    """Make prompts with rho = 1: W = s r u + t v / 2, r log-normal and independent of Z.

    s, t = -1, 1; E[Z | t] = V + signal t, so that g = signal v / 2.
    """
    rng = np.random.default_rng(seed)
    value_P = rng.uniform(low, high, PROMPTS)
    axes = np.linalg.qr(rng.standard_normal((PROMPTS, DIMENSIONS, DIMENSIONS)))[0]
    s, which, t, z = np.array(list(product((-1, 1), range(radii), (-1, 1), (0, 1)))).T
    radius_PR = np.exp(tails * rng.standard_normal((PROMPTS, radii)))
    chance_PC = value_P[:, None] + signal * t
    probability_PC = np.where(z == 1, chance_PC, 1 - chance_PC) / (4 * radii)
    along_u = s * radius_PR[:, which]
    score = along_u[..., None] * axes[:, None, 0] + (t / 2)[:, None] * axes[:, None, 1]
    return Design(probability_PC, score, np.tile(z * 1.0, (PROMPTS, 1)))


def on_the_line(value_P):
    """Shrink right completions' scores until vanilla's MSE is the oracle's: b* = V/2."""

    def apart(right):
        place = aggregate_place(make_prompts(3, value_P, right=right, shared=1.0).moments())
        return place.best_baseline / place.value - 0.5

    right = optimize.brentq(apart, 0.05, 3.0, xtol=1e-4)
    return make_prompts(3, value_P, right=right, shared=1.0)


def graded(design):
    """Give every kind of completion a reward of its own."""
    rng = np.random.default_rng(4)
    return replace(design, reward_PC=rng.normal(1.0, 1.0, design.reward_PC.shape))


def uniform(low, high, seed=0):
    """Draw values."""
    return np.random.default_rng(seed).uniform(low, high, PROMPTS)


def in_two_parts(first, second, share=0.5):
    """Draw values of which a share lies in the first range, the rest in the second."""
    rest = np.random.default_rng(1).random(PROMPTS) >= share
    return np.where(rest, uniform(*second), uniform(*first))


def _extremes():
    ends = in_two_parts((0.005, 0.03), (0.97, 0.995))
    middle = np.random.default_rng(2).random(PROMPTS) < 0.3
    return np.where(middle, uniform(0.1, 0.9), ends)


MIDDLING, BIMODAL = (0.1, 0.9), ((0.03, 0.12), (0.88, 0.97))

SOURCES = {
    "V 0.1 to 0.9": Source(lambda: make_prompts(0, uniform(*MIDDLING))),
    "strong g": Source(lambda: make_prompts(0, uniform(*MIDDLING), shared=12.0)),
    "weak g": Source(lambda: make_prompts(0, uniform(*MIDDLING), shared=0.6)),
    "graded": Source(lambda: graded(make_prompts(0, uniform(*MIDDLING)))),
    "half easy, half hard": Source(lambda: make_prompts(0, in_two_parts(*BIMODAL))),
    "heavy lengths": Source(
        lambda: make_prompts(0, uniform(*MIDDLING), kinds=48, tails=0.8)
    ),
    "20% distinct": Source(
        lambda: make_prompts(0, uniform(*MIDDLING), kinds=24, spread=0.15)
    ),
    "V near 0 or 1 on 70%": Source(lambda: make_prompts(0, _extremes())),
    "P = 12": Source(lambda: make_prompts(0, uniform(*MIDDLING)), prompts=12),
    "P = 30": Source(lambda: make_prompts(0, uniform(*MIDDLING)), prompts=30),
    "P = 120": Source(lambda: make_prompts(0, uniform(*MIDDLING)), prompts=120),
    "reference 64": Source(lambda: make_prompts(0, uniform(*MIDDLING)), reference=64),
    "reference 16": Source(
        lambda: make_prompts(0, uniform(*MIDDLING)), prompts=40, reference=16
    ),
    "tails tied to V": Source(
        lambda: make_prompts(
            0, uniform(*MIDDLING), kinds=48, tails=1.2 * (1 - uniform(*MIDDLING))
        )
    ),
    "on the line": Source(lambda: on_the_line(uniform(*MIDDLING))),
    "bimodal, on the line": Source(lambda: on_the_line(in_two_parts(*BIMODAL))),
    "rho = 1, rare, heavy": Source(lambda: uncorrelated(5, 0.05, 0.3, 0.8), prompts=120),
    "the same, 64 replicates": Source(
        lambda: uncorrelated(5, 0.05, 0.3, 0.8), prompts=120, largest=32
    ),
    "V 0.01 to 0.12": Source(lambda: make_prompts(0, uniform(0.01, 0.12))),
    "the same, reference 1024": Source(
        lambda: make_prompts(0, uniform(0.01, 0.12)), reference=1024
    ),
    # A fifth of the prompts are right in one completion of the reference, or in none.
    "the same, reference 64": Source(
        lambda: make_prompts(0, uniform(0.01, 0.12)), reference=64, extreme=True
    ),
}


@cache
def population(name: str) -> Design:
    """Make the population of a source."""
    return SOURCES[name].make()
