"""Pools drawn from known distributions, without a model: exact truths at no cost.

Each prompt has C kinds of completions with probabilities, scores of mean zero in a few
dimensions and rewards; right completions have smaller scores, as in language models.
"""

from dataclasses import dataclass, replace

import numpy as np

from mse_lab.api.measure import analyse
from mse_lab.mse.laws import LAWS
from mse_lab.mse.moments import Moments
from mse_lab.mse.one_pool import PromptSample, choose_scored, kept_weights
from mse_lab.mse.pools import Pools

KINDS, DIMENSIONS = 12, 6


@dataclass(frozen=True)
class Design:
    """P prompts with known laws."""

    probability_PC: np.ndarray
    score_PCD: np.ndarray
    reward_PC: np.ndarray

    @property
    def prompts(self):
        return len(self.reward_PC)

    def mean(self, values_PC):
        return (self.probability_PC * values_PC).sum(-1)

    @property
    def gradient_PD(self):
        return np.einsum(
            "pc,pc,pcd->pd", self.probability_PC, self.reward_PC, self.score_PCD
        )

    def moments(self):
        norms2, rewards = (self.score_PCD**2).sum(-1), self.reward_PC
        value = self.mean(rewards)
        return Moments(
            norm2=self.mean(norms2),
            reward_norm2=self.mean(rewards * norms2),
            reward2_norm2=self.mean(rewards**2 * norms2),
            value=value,
            variance=self.mean((rewards - value[:, None]) ** 2),
            gradient2=(self.gradient_PD**2).sum(-1),
        )

    def mse(self, name, size):
        """Exact aggregate MSE, (1/P^2) sum_x MSE(x)."""
        return float(LAWS[name](self.moments(), size).sum() / self.prompts**2)

    def draw(self, rng, reference, blocks, largest):
        """Draw what a run would leave: pools of `blocks` blocks of `largest`."""
        counts = (reference // 2, reference // 2, blocks * largest)
        return self.pools(*(self.pick(rng, count) for count in counts), largest)

    def pools(self, first_PN, second_PN, own_PN, largest):
        """Give the pools of these kinds of completions: two halves, and replicates."""
        (first, z_first), (second, z_second), (scores, rewards) = (
            self.completions(kinds) for kinds in (first_PN, second_PN, own_PN)
        )
        r_a, r_b = (_leave_one_out(z, w) for z, w in ((z_first, first), (z_second, second)))
        mean = (r_a + r_b) / 2
        in_blocks = scores.reshape(self.prompts, -1, largest, scores.shape[-1])
        return Pools(
            rewards_PN=rewards,
            lengths_PN=np.ones(rewards.shape, dtype=int),
            gram_PKGG=in_blocks @ in_blocks.swapaxes(-1, -2),
            products_PN=np.einsum("pnd,pd->pn", scores, mean),
            reference_rewards_PN=np.concatenate([z_first, z_second], axis=1),
            reference_product_P=(r_a * r_b).sum(-1),
            reference_distance2_P=((r_a - r_b) ** 2).sum(-1),
            between_PP=mean @ mean.T,
            halves_PP=(r_a - r_b) @ mean.T,
            kind_norms2_PNM=np.zeros((*rewards.shape, 0)),
            kind_products_PM=np.zeros((self.prompts, 0)),
            logit_norms2_PN=np.sqrt((scores**2).sum(-1)),
        )

    def sample(self, rng, completions, most=None):
        """Draw a few completions of each prompt, at most so many of a kind with scores."""
        scores, rewards = self.completions(self.pick(rng, completions))
        return [
            make_sample(*one, choose_scored(one[0], most, rng))
            for one in zip(rewards, scores, strict=True)
        ]

    def pick(self, rng, count):
        uniform = rng.random((self.prompts, count, 1))
        return (uniform > self.probability_PC.cumsum(-1)[:, None, :-1]).sum(-1)

    def completions(self, kinds_PN):
        scores = np.take_along_axis(self.score_PCD, kinds_PN[..., None], axis=1)
        return scores, np.take_along_axis(self.reward_PC, kinds_PN, axis=1)


def with_rewards(pools, change):
    """Change the rewards alike in both pools; the products stay as they are."""
    rewards = pools.rewards_PN, pools.reference_rewards_PN
    own, reference = map(change, rewards)
    return replace(pools, rewards_PN=own, reference_rewards_PN=reference)


def make_sample(rewards_N, score_ND, scored_K):
    """The sample of one prompt by the scores of all its completions."""
    score_KD = score_ND[scored_K]
    vectors_MD = kept_weights(rewards_N, scored_K) @ score_KD
    return PromptSample(
        rewards_N=rewards_N,
        scored_K=scored_K,
        gram_KK=score_KD @ score_KD.T,
        gradient_D=vectors_MD[0],
        inner_MF=vectors_MD[1:],
        lengths_N=np.ones(len(rewards_N), dtype=np.int64),
        logit_norms2_N=np.sqrt((score_ND**2).sum(-1)),
    )


def analysed(pools, sizes, name="pools", **settings):
    return analyse(vars(pools), group_sizes=sizes, name=name, **settings)


def _leave_one_out(rewards_PN, scores_PND):
    centred = rewards_PN - rewards_PN.mean(-1, keepdims=True)
    return np.einsum("pn,pnd->pd", centred, scores_PND) / (rewards_PN.shape[1] - 1)


def make_design(rng, prompts=60, values=(0.1, 0.9)):
    """Make prompts whose values lie between the two given."""
    target = rng.uniform(*values, size=prompts)
    probability = rng.dirichlet(np.ones(KINDS), size=prompts)
    # The most that fits below the target value is right.
    right = probability.cumsum(-1) <= target[:, None]
    right[:, 0] |= ~right.any(-1)
    size = np.where(right, 1.0, 2.0)[..., None]
    score = size * rng.standard_normal((prompts, KINDS, DIMENSIONS))
    score -= (probability[..., None] * score).sum(1, keepdims=True)
    return Design(probability, score, right.astype(float))
