"""Populations of prompts whose constants are known, and runs drawn from them."""

from dataclasses import replace
from functools import cache

import numpy as np

from simulated import Design, analysed, make_design

POPULATION, PROMPTS = 4000, 60


def advise_on(pools):
    """Advise from pools that are no run's."""
    return analysed(pools, [4]).advise()


def tilt(design, step_PD):
    """Add to the scores a step along the centred reward: g moves by Var(Z) times it."""
    residual = design.reward_PC - design.mean(design.reward_PC)[:, None]
    return replace(
        design, score_PCD=design.score_PCD + residual[..., None] * step_PD[:, None]
    )


def population(rng, shared=2.0):
    """Prompts whose gradients have a part in common."""
    design = make_design(rng, prompts=POPULATION)
    common = np.zeros((POPULATION, design.score_PCD.shape[-1]))
    common[:, 0] = shared
    return tilt(design, common)


def with_gradient(design, gradient):
    """Give every prompt this gradient, so that c1 = 0."""
    variance = design.moments().variance
    return tilt(design, (gradient - design.gradient_PD) / variance[:, None])


def choose(design, index):
    return Design(*(getattr(design, name)[index] for name in vars(design)))


def sample(design, rng, reference=256, blocks=2, largest=16):
    """Draw the prompts of a run, and its pools."""
    index = rng.integers(0, design.prompts, PROMPTS)
    return choose(design, index).draw(rng, reference, blocks, largest)


@cache
def known_run():
    """A population, the pools of one run on it, and the advice."""
    rng = np.random.default_rng(0)
    design = population(rng)
    pools = sample(design, rng, blocks=4, largest=64)
    return design, pools, advise_on(pools)


@cache
def alike_prompts():
    """Prompts that share the gradient: c1 = 0."""
    rng = np.random.default_rng(2)
    design = make_design(rng, prompts=POPULATION)
    # Elsewhere the scores that a given gradient needs would be huge.
    design = choose(design, design.moments().variance > 0.1)
    return with_gradient(design, 0.2)
