"""Forms of prompts whose every moment is known, and of random ones."""

from dataclasses import dataclass

import numpy as np

from mse_lab.answers.felt import Felt
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.metric_forms import Forms


@dataclass(frozen=True)
class Prompt:
    """The gradient of a log-linear policy's prompt, its Hessian, and C2 and C3."""

    gradient: np.ndarray
    hessian: np.ndarray
    oracle: np.ndarray
    pairs: np.ndarray

    @classmethod
    def made(cls, probabilities, rewards, scores):
        apart = rewards - probabilities @ rewards

        def outer(weights):
            return np.einsum("k,ki,kj->ij", probabilities * weights, scores, scores)

        gradient = (probabilities * apart) @ scores
        square = np.outer(gradient, gradient)
        variance = probabilities @ apart**2
        ones = np.ones_like(apart)
        return cls(
            gradient,
            outer(apart),
            outer(apart**2) - square,
            variance * outer(ones) + square,
        )

    @classmethod
    def of(cls, policy):
        return cls.made(policy.probabilities, policy.rewards, policy.scores)


def exact_forms(prompts, half, metric=None):
    """Give the mean forms of prompts, in their own curvatures or in one metric."""
    metrics = [-one.hessian for one in prompts] if metric is None else [metric]
    rows = []
    for place, matrix in enumerate(metrics):
        products = np.array(
            [[x.gradient @ matrix @ y.gradient for y in prompts] for x in prompts]
        )
        noise = [
            np.trace(matrix @ (x.oracle + x.pairs / (half - 1))) / half for x in prompts
        ]
        apart = products - np.diag(products.diagonal())
        meetings = products[:, place].copy()
        if metric is None:
            apart[:, place] = apart[place] = 0
        rows.append(
            [
                products.diagonal(),
                noise,
                [np.trace(matrix @ x.pairs) for x in prompts],
                apart.sum(1),
                apart.sum(0),
                meetings,
            ]
        )
    return Forms(*(np.array(column) for column in zip(*rows, strict=True)))


# G* of the prompts that `draw_forms` draws.
BEST = 4.0


def draw_forms(rng, count, half, spread=1.0):
    """Draw prompts whose curvature and noise are lognormal, and the noise of their forms.

    The means are c1 = 1, c2 = 1 and c3 = 9; `spread` is the sd of the logarithms.
    """
    logs = spread * rng.standard_normal((3, count)) - spread**2 / 2
    curvature, noise, signal = np.exp(logs)
    scatter = rng.standard_normal((2, count, count))
    gradients = np.outer(curvature, signal) * (1 + scatter[0])
    pairs = 9 * np.outer(curvature, noise) * (1 + 0.5 * scatter[1])
    zeros = np.zeros((count, count))
    noises = (np.outer(curvature, noise) + pairs / (half - 1)) / half
    return Forms(gradients, noises, pairs, zeros, zeros, zeros)


def felt_of(**changes):
    """What training feels, of numbers by hand."""
    one = Estimate(1.0, 0.5, 2.0)
    values = {
        "metric": "curvature", "prompts": 24, "trained": 60, "c1": one, "c2": one,
        "c3": one, "best": Estimate(3.0, 2.5, 3.6), "best_in_training": Estimate(3.4, 3, 4),
        "best_first_order": Estimate(5.5, 5, 6), "recommended": 2, "plain": 4,
        "cost_of_plain": Estimate(1.4, 1.2, 1.6), "helps": 0.1, "own": 30.0,
    }  # fmt: skip
    return Felt(**{**values, **changes})
