"""Batches small enough to enumerate, and groups made by hand."""

import numpy as np

from enumerated import Enumerated
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


def toy_policy():
    """Softmaxes over three completions of three prompts, one or two of them right.

    The score of completion i is e_i - p, its gradient by the logits.
    """
    odds_PC = np.exp([[0.0, 0.4, -0.7], [0.3, -0.5, 0.1], [-0.2, 0.0, 0.8]])
    probability_PC = odds_PC / odds_PC.sum(1, keepdims=True)
    reward_PC = np.array([[1.0, 0, 0], [1.0, 1, 0], [0.0, 1, 0]])
    length_PC = np.array([[1, 4, 2], [5, 2, 1], [3, 1, 7]])
    score_PCD = np.eye(3) - probability_PC[:, None]
    return Enumerated(probability_PC, score_PCD, reward_PC, length_PC)
