"""An engine beside a policy, small enough to list: exact truths of every correction."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from mse_lab.mse.corrections import (
    CORRECTIONS,
    CorrectedPrompt,
    CorrectionPools,
    pair_means,
)

BLOCK = 16


def softmax(logits):
    odds = np.exp(logits)
    return odds / odds.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Engine:
    """Completions of T tokens, V of each; a token's logits are theta_tv, and the engine's.

    The gradient is with respect to `mixing`, theta = mixing @ parameters, so that tokens'
    scores are not orthogonal.
    """

    own_TV: np.ndarray
    engine_TV: np.ndarray
    mixing_DTV: np.ndarray
    rewards_C: np.ndarray

    @classmethod
    def random(cls, rng, tokens=2, vocabulary=2, dimensions=3, spread=0.8, shared=0.0):
        """Draw one.

        Of `shared` size is what all prompts have in common: each place has a parameter, and
        the engine prefers the first word at the first place.
        """
        logits = rng.normal(size=(tokens, vocabulary))
        kinds = vocabulary**tokens
        mixing = rng.normal(size=(dimensions, tokens, vocabulary))
        places = range(min(tokens, dimensions))
        mixing[places, places, 0] += 2 * shared
        noise = spread * (1 - shared / 2) * rng.normal(size=logits.shape)
        noise[0, 0] += 2 * spread * shared
        return cls(
            softmax(logits),
            softmax(logits + noise),
            mixing,
            # The first word is right at each place, and by chance something else.
            np.array([one.count(0) for one in product(range(vocabulary), repeat=tokens)])
            + 0.5 * rng.integers(0, 2, kinds),
        )

    @cached_property
    def tokens_CT(self):
        tokens, vocabulary = self.own_TV.shape
        return np.array(list(product(range(vocabulary), repeat=tokens)))

    def _of_tokens(self, table_TV):
        return table_TV[np.arange(len(table_TV)), self.tokens_CT]

    @cached_property
    def drawn_C(self):
        return self._of_tokens(self.engine_TV).prod(1)

    @cached_property
    def log_ratios_CT(self):
        return np.log(self._of_tokens(self.own_TV) / self._of_tokens(self.engine_TV))

    @cached_property
    def scores_CTD(self):
        """The gradient of each token's log-probability."""
        mean_DT = (self.mixing_DTV * self.own_TV).sum(-1)
        picked = self.mixing_DTV[:, np.arange(len(self.own_TV)), self.tokens_CT]
        return (picked - mean_DT[:, None]).transpose(1, 2, 0)

    @cached_property
    def weights_FCT(self):
        whole = self.log_ratios_CT.sum(1, keepdims=True)
        each = [
            one.weigh(self.log_ratios_CT if one.per_token else whole) for one in CORRECTIONS
        ]
        return np.stack([one * np.ones_like(self.log_ratios_CT) for one in each])

    @cached_property
    def corrected_FCD(self):
        return np.einsum("fct,ctd->fcd", self.weights_FCT, self.scores_CTD)

    @cached_property
    def gradient_D(self):
        """Under the policy itself."""
        own_C = self._of_tokens(self.own_TV).prod(1)
        return (own_C * self.rewards_C) @ self.scores_CTD.sum(1)

    def mean_of(self, place):
        """E g_hat of a correction."""
        apart_C = self.rewards_C - self.drawn_C @ self.rewards_C
        return (self.drawn_C * apart_C) @ self.corrected_FCD[place]

    def second_moment(self, place, size):
        """E||g_hat||^2, by every group of a size."""
        kinds_KG = np.array(list(product(range(len(self.rewards_C)), repeat=size)))
        rewards_KG = self.rewards_C[kinds_KG]
        weights_KG = (rewards_KG - rewards_KG.mean(1, keepdims=True)) / (size - 1)
        scores_KGD = self.corrected_FCD[place][kinds_KG]
        estimates_KD = np.einsum("kg,kgd->kd", weights_KG, scores_KGD)
        return self.drawn_C[kinds_KG].prod(1) @ (estimates_KD**2).sum(1)

    def measure(self, rng, completions):
        """Draw completions of the engine, and measure as the program does."""
        kinds_N = rng.choice(len(self.drawn_C), size=completions, p=self.drawn_C)
        means, gradients = [], []
        for kinds in kinds_N.reshape(-1, BLOCK):
            rewards, used = self.rewards_C[kinds], self.corrected_FCD[:, kinds]
            means.append(pair_means(used[:, None] @ used.swapaxes(1, 2), rewards))
            weights = (rewards - rewards.mean()) / (BLOCK - 1)
            gradients.append(np.einsum("i,fid->fd", weights, used))
        gradients, count = np.array(gradients), len(means)
        total = gradients.sum(0)
        between = total @ total.T - sum(one @ one.T for one in gradients)
        return CorrectedPrompt(
            apart_FF=(sum(one.apart for one in means) + between) / count**2,
            linked_F=np.mean([one.linked.diagonal() for one in means], 0),
            same_F=np.mean([one.same.diagonal() for one in means], 0),
            mass_F=self.weights_FCT[:, kinds_N].mean((1, 2)),
            log_ratios_N=self.log_ratios_CT[kinds_N].sum(1),
            divergences_N=np.zeros(completions),
            lengths_N=np.ones(completions),
            gradients_FD=total / count,
        )


def engines(rng, prompts, spread=0.8):
    """Draw prompts whose gradients have something in common."""
    return [Engine.random(rng, spread=spread, shared=1.0) for _ in range(prompts)]


def pools_of(rng, listed, completions):
    """Measure prompts."""
    return CorrectionPools.of([one.measure(rng, completions) for one in listed])
