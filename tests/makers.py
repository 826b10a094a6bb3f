"""Policies of other makers, unlike one another, all of whose completions are known.

A tabular softmax has a logit for every completion of a prompt, W = onehot(Y) - pi; a
log-linear one shares its parameters, W = features - their mean. A lenient reward accepts
several completions, an exact one the first alone.
"""

from functools import cache

import numpy as np

from enumerated import Enumerated
from mse_lab.estimators import ESTIMATORS
from simulated import Design

PROMPTS = 24


def tabular(right_PC, wrong_PC):
    """Make prompts of the chances of right and of wrong completions, a logit each."""
    chance_PC = np.concatenate([right_PC, wrong_PC], axis=1)
    prompts, kinds = chance_PC.shape
    scores = np.zeros((prompts, kinds, prompts, kinds))
    own = np.arange(prompts)
    scores[own, :, own] = np.eye(kinds) - chance_PC[:, None]
    reward_PC = np.zeros_like(chance_PC)
    reward_PC[:, : right_PC.shape[1]] = 1
    return Design(chance_PC, scores.reshape(prompts, kinds, -1), reward_PC)


def spread(value_P, right, wrong):
    """Share the chance of being right, and that of being wrong, out evenly."""
    return tabular(
        np.repeat(value_P[:, None] / right, right, axis=1),
        np.repeat((1 - value_P[:, None]) / wrong, wrong, axis=1),
    )


def log_linear(right, seed=0, kinds=6, dimensions=4):
    """Make prompts that share parameters; of each the first completions are right."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((PROMPTS, kinds, dimensions))
    features[:, :right] *= 0.3 if right == 1 else 1.0
    logits = features @ rng.standard_normal(dimensions)
    logits[:, :right] += 1.0
    chance = np.exp(logits)
    chance /= chance.sum(1, keepdims=True)
    mean = np.einsum("pc,pcd->pd", chance, features)
    reward = np.tile((np.arange(kinds) < right) * 1.0, (PROMPTS, 1))
    return Design(chance, features - mean[:, None], reward)


VALUES = np.linspace(0.35, 0.6, PROMPTS)

MAKERS = {
    # Vanilla is smallest from V = 1/3 on where wrong answers are many, from 2/3 where one.
    "many wrong answers": lambda: spread(VALUES, 1, 7),
    "one wrong answer": lambda: spread(VALUES, 1, 1),
    "one wrong answer, mostly right": lambda: spread(VALUES + 0.35, 1, 1),
    "many right answers": lambda: spread(VALUES, 6, 2),
    "shared parameters, exact": lambda: log_linear(1),
    "shared parameters, lenient": lambda: log_linear(4),
}


@cache
def make(name):
    return MAKERS[name]()


def enumerate_prompts(design):
    kinds = design.reward_PC.shape[1]
    return [
        Enumerated([(kind,) for kind in range(kinds)], *parts)
        for parts in zip(
            design.probability_PC,
            design.reward_PC,
            np.ones_like(design.reward_PC),
            design.score_PCD,
            strict=True,
        )
    ]


@cache
def brute_force(name, estimator, size):
    """Sum over prompts of the exact MSE, every group of every prompt enumerated."""
    return sum(
        one.mse(ESTIMATORS[estimator], size) for one in enumerate_prompts(make(name))
    )
