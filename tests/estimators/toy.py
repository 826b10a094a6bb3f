"""Batches small enough to enumerate, and groups made by hand."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from mse_lab.estimators.groups import Groups


def make_groups(
    rewards, lengths=None, norms2=None, value=0.0, best_constant=0.0, logit_norms2=None
):
    """Groups of rewards (..., G); a single group or batch gets the axes it lacks."""
    rewards = np.asarray(rewards, dtype=float)
    rewards = rewards.reshape((1,) * (3 - rewards.ndim) + rewards.shape)
    ones = np.ones(rewards.shape)
    return Groups(
        rewards_PRG=rewards,
        lengths_PRG=(ones if lengths is None else ones * lengths).astype(np.int64),
        norms2_PRG=ones if norms2 is None else ones * norms2,
        value_P=np.ones(len(rewards)) * value,
        best_constant_PR=np.ones(rewards.shape[:2]) * best_constant,
        logit_norms2_PRG=ones if logit_norms2 is None else ones * logit_norms2,
    )


def make_batch(*rewards_of_prompts):
    """One replicate: a list of rewards for each prompt."""
    return make_groups(np.array(rewards_of_prompts, dtype=float)[:, None, :])


@dataclass(frozen=True)
class Toy:
    """P prompts, each a softmax over C completions with its own logits.

    The score of completion i is e_i - p, the gradient of V by the logits p (Z - V).
    """

    logits_PC: np.ndarray
    rewards_PC: np.ndarray
    lengths_PC: np.ndarray

    @property
    def probabilities_PC(self):
        odds = np.exp(self.logits_PC)
        return odds / odds.sum(1, keepdims=True)

    @property
    def scores_PCD(self):
        return np.eye(self.logits_PC.shape[1]) - self.probabilities_PC[:, None, :]

    @property
    def value_P(self):
        return (self.probabilities_PC * self.rewards_PC).sum(1)

    @property
    def gradient_PD(self):
        return self.probabilities_PC * (self.rewards_PC - self.value_P[:, None])

    def mean_estimate(self, estimator, size):
        """Exact E g_hat of each prompt (P, D): a sum over every batch there can be."""
        prompts, completions = self.logits_PC.shape
        drawn = np.array(list(product(range(completions), repeat=prompts * size)))
        drawn_PRG = drawn.reshape(-1, prompts, size).swapaxes(0, 1)
        at = (np.arange(prompts)[:, None, None], drawn_PRG)
        norms2_PC = (self.scores_PCD**2).sum(-1)
        best = (self.probabilities_PC * self.rewards_PC * norms2_PC).sum(1)
        best /= (self.probabilities_PC * norms2_PC).sum(1)
        # Norms of logits unlike the score's, and no multiple of the length.
        lengths = self.lengths_PC[at]
        others = self.value_P, best[:, None], 1.5 + lengths
        groups = make_groups(self.rewards_PC[at], lengths, norms2_PC[at], *others)
        probability_R = self.probabilities_PC[at].prod((0, 2))
        return (
            np.einsum(
                "r,prg,prgd->pd",
                probability_R,
                estimator.weights(groups),
                self.scores_PCD[at],
                optimize=True,
            )
            / size
        )


def toy_policy(prompts=3):
    """Three completions a prompt, one or two of them right, with unlike lengths."""
    toy = Toy(
        logits_PC=np.array([[0.0, 0.4, -0.7], [0.3, -0.5, 0.1], [-0.2, 0.0, 0.8]]),
        rewards_PC=np.array([[1.0, 0, 0], [1.0, 1, 0], [0.0, 1, 0]]),
        lengths_PC=np.array([[1, 4, 2], [5, 2, 1], [3, 1, 7]]),
    )
    return Toy(toy.logits_PC[:prompts], toy.rewards_PC[:prompts], toy.lengths_PC[:prompts])
