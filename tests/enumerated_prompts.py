"""Prompts all of whose completions are known: MSE and its parts, summed over groups."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
from scipy import stats

from enumerated import Enumerated, random_enumerated
from mse_lab.estimators import ESTIMATORS
from simulated import Design

BINARY_REWARDS, GRADED_REWARDS = (1.0, 0.0, 1.0, 0.0), (1.0, -0.5, 0.4, 0.0)
# Rewards, the length of the gradients' common part, and how often there are the prompts.
KINDS = {
    "binary": (BINARY_REWARDS, 1.0, 1),
    "graded": (GRADED_REWARDS, 1.0, 1),
    "binary, many": (BINARY_REWARDS, 4.0, 12),
}
LARGEST = 8  # G of the blocks of replicates.


@cache
def prompts_of(kind):
    """Three prompts whose gradients have a common part, or copies of them."""
    rewards, push, copies = KINDS[kind]
    rng = np.random.default_rng(3)
    prompts = [random_enumerated(rng, rewards=rewards) for _ in range(3)]
    step = np.array([push, 0, 0])
    return copies * [
        replace(
            one,
            lengths=np.ones(4, dtype=int),
            scores=one.scores + (one.rewards - one.value)[:, None] * step,
        )
        for one in prompts
    ]


def design_of(prompts):
    parts = ("probabilities", "scores", "rewards")
    return Design(*(np.stack([getattr(one, part) for one in prompts]) for part in parts))


def trace_and_zeta(prompt):
    """T and zeta from the MSEs at G = 2, T/2 and T/2 + zeta/2."""
    oracle, grpo = (prompt.mse(ESTIMATORS[name], 2) for name in ("oracle", "grpo"))
    return 2 * oracle, 2 * (grpo - oracle)


def reference_noise(prompt, half):
    """Give tr Var(rbar) of a mean of two halves, which is what a plain reference adds."""
    trace, zeta = trace_and_zeta(prompt)
    return (trace / half + zeta / (half * (half - 1))) / 2


def norm_ratio(prompt):
    """Give rho: the mean ||W||^2 of right completions over that of wrong ones."""
    weights, right = prompt.probabilities, prompt.rewards == 1
    norms2 = np.diag(prompt.gram)
    means = (np.average(norms2[one], weights=weights[one]) for one in (right, ~right))
    return next(means) / next(means)


def parts(mse, mean, gradient, second):
    """Take a mean square apart; `second` is E||g_hat||^2."""
    norm2, inner = gradient @ gradient, mean @ gradient
    bias2 = (mean - gradient) @ (mean - gradient)
    return {
        "mse": mse,
        "bias2": bias2,
        "variance": mse - bias2,
        "slope": inner / norm2,
        "cosine": inner / np.sqrt(norm2 * (mean @ mean)),
        "scale_free_mse": norm2 - inner**2 / second,
    }


@cache
def mse_and_mean(prompt, name, size):
    """Of one prompt, each summed over all groups."""
    estimator = ESTIMATORS[name]
    return prompt.mse(estimator, size), prompt.mean_estimate(estimator, size)


def one_prompt(prompt, name, size):
    (mse, mean), gradient = mse_and_mean(prompt, name, size), prompt.gradient
    return parts(mse, mean, gradient, mse + 2 * mean @ gradient - gradient @ gradient)


def aggregate(prompts, name, size):
    """The mean over prompts: variances add up over P^2, biases as vectors."""
    each = [one_prompt(one, name, size) for one in prompts]
    mean = np.mean([mse_and_mean(one, name, size)[1] for one in prompts], axis=0)
    gradient = np.mean([one.gradient for one in prompts], axis=0)
    variance = sum(one["variance"] for one in each) / len(prompts) ** 2
    mse = variance + (mean - gradient) @ (mean - gradient)
    return parts(mse, mean, gradient, variance + mean @ mean)


def of_two_kinds(right, score):
    """A prompt of a right and of a wrong completion: by their rewards all is known."""
    wrong = -right / (1 - right) * np.array(score)
    return Enumerated(
        completions=[(0,), (1,)],
        probabilities=np.array([right, 1 - right]),
        rewards=np.array([1.0, 0.0]),
        lengths=np.ones(2, dtype=int),
        scores=np.stack([np.array(score), wrong]),
    )


def every_reference(prompts, half):
    """All references of two halves each: (chance, pools), by how many are right in each.

    The replicates have every kind as often as is expected; laws are linear in their norms.
    """
    design, counts = design_of(prompts), np.arange(half + 1)
    chance_PH = stats.binom.pmf(counts, half, design.probability_PC[:, :1])
    first, second = np.triu_indices(half + 1)  # The halves may change places.
    chances_PI = np.where(first < second, 2, 1) * chance_PH[:, first] * chance_PH[:, second]
    own_N = np.arange(LARGEST) % 4 > 0
    own_PN = np.array([own_N if one.value == 0.25 else ~own_N for one in prompts]) * 1
    for index in product(range(len(first)), repeat=len(prompts)):
        halves = (
            (np.arange(half) >= right[list(index), None]) * 1 for right in (first, second)
        )
        chance = chances_PI[np.arange(len(prompts)), list(index)].prod()
        yield chance, design.pools(*halves, np.hstack([own_PN, own_PN]), LARGEST)
