"""Prompts all of whose completions are known: gradient, moments and MSE by brute force.

Completions of a prompt are finitely many types with known probabilities. A group of G is
a multinomial draw of types, so the mean of anything over groups is a finite sum.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
from scipy import stats
from scipy.special import gammaln

from every_estimator import EVERY
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from plain_scores import plain_scores
from simulated import Design, tilt

BINARY_REWARDS, GRADED_REWARDS = (1.0, 0.0, 1.0, 0.0), (1.0, -0.5, 0.4, 0.0)
KINDS = {"binary": BINARY_REWARDS, "graded": GRADED_REWARDS}
LARGEST = 8  # G of the blocks of replicates.


@dataclass(frozen=True, eq=False)
class Enumerated(Design):
    """All completions of prompts, of C types each, so that all groups can be listed."""

    length_PC: np.ndarray

    @property
    def norms2_PC(self):
        return (self.score_PCD**2).sum(-1)

    @cache  # noqa: B019 - prompts live as long as the tests
    def groups(self, size, together):
        """Every group of `size` completions: types (P, R, G), groups, and chances (P, R).

        Of each prompt by itself, or `together` every batch of such groups. Multisets with
        their multinomial probability; all ordered groups where there are few, for
        estimators whose weights depend on the order among equals.
        """
        kinds = range(self.reward_PC.shape[1])
        ordered = len(kinds) ** size <= 2**16
        ways = (
            product(kinds, repeat=size)
            if ordered
            else combinations_with_replacement(kinds, size)
        )
        types_RG = np.array(list(ways))
        counts_RC = (types_RG[..., None] == np.arange(len(kinds))).sum(1)
        log_ways_R = 0.0 if ordered else gammaln(size + 1) - gammaln(counts_RC + 1).sum(1)
        chance_PR = np.exp(log_ways_R + np.log(self.probability_PC) @ counts_RC.T)
        at_PR = np.tile(np.arange(len(types_RG)), (self.prompts, 1))
        if together:
            at_PR = np.indices([len(types_RG)] * self.prompts).reshape(self.prompts, -1)
            chance_PR = np.take_along_axis(chance_PR, at_PR, 1).prod(0, keepdims=True)
        types_PRG, norms2_PC = types_RG[at_PR], self.norms2_PC
        best_P = self.mean(self.reward_PC * norms2_PC) / self.mean(norms2_PC)
        rewards_PRG, lengths_PRG, norms2_PRG = (
            np.take_along_axis(values_PC[:, None], types_PRG, -1)
            for values_PC in (self.reward_PC, self.length_PC, norms2_PC)
        )
        groups = Groups(
            rewards_PRG=rewards_PRG,
            lengths_PRG=lengths_PRG,
            norms2_PRG=norms2_PRG,
            value_P=self.mean(self.reward_PC),
            best_constant_PR=np.broadcast_to(best_P[:, None], at_PR.shape),
            # Norms of logits unlike the score's, and no multiple of the length.
            logit_norms2_PRG=np.sqrt(norms2_PRG),
        )
        return types_PRG, groups, chance_PR

    def parts(self, estimator, size, together):
        """Every g_hat as a sum of the types' scores, (P, R, C), and its chance, (P, R)."""
        types_PRG, groups, chance_PR = self.groups(size, together)
        weights_PRG, types = estimator.weights(groups) / size, range(types_PRG.max() + 1)
        parts = [(weights_PRG * (types_PRG == kind)).sum(-1) for kind in types]
        return np.stack(parts, -1), chance_PR

    def mse(self, estimator, size):
        """Exact E||g_hat - g||^2 of each prompt, by summing over all groups."""
        parts_PRC, chance_PR = self.parts(estimator, size, not estimator.group_local)
        off_PRC = parts_PRC - (self.probability_PC * self.reward_PC)[:, None]
        gram_PCC = self.score_PCD @ self.score_PCD.swapaxes(-1, -2)
        return (((off_PRC @ gram_PCC) * off_PRC).sum(-1) * chance_PR).sum(-1)

    def mean_estimate(self, estimator, size, together=False):
        """Exact E g_hat of each prompt, (P, D)."""
        together |= not estimator.group_local
        parts_PRC, chance_PR = self.parts(estimator, size, together)
        return (chance_PR[:, None] @ parts_PRC @ self.score_PCD)[:, 0]


def ends(policy, tokens):
    """Tell whether tokens end a completion, from the whole text."""
    stops = () if policy.stops is None else policy.stops.texts
    text = policy.tokenizer.decode(tokens, skip_special_tokens=True) if stops else ""
    return tokens[-1] in policy.end_tokens or any(stop in text for stop in stops)


def enumerate_policy(policy, prompt, vocabulary, positions, reward):
    """Enumerate the completions of at most `positions` tokens; give their tokens, too.

    `vocabulary` is the number of tokens; `reward` takes the tuple of a completion's tokens.
    """
    kept = []
    for tokens in product(range(vocabulary), repeat=positions):
        lengths = range(1, positions + 1)
        own = tokens[: next((n for n in lengths if ends(policy, tokens[:n])), positions)]
        if own not in kept:
            kept.append(own)
    scores, log_probs, _ = plain_scores(policy, as_completions(kept), prompt)
    probabilities = np.exp(log_probs)
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-6)
    return kept, Enumerated(
        probability_PC=probabilities[None] / probabilities.sum(),
        score_PCD=scores[None],
        reward_PC=np.array([[float(reward(tokens)) for tokens in kept]]),
        length_PC=np.array([[len(tokens) for tokens in kept]]),
    )


def as_completions(token_lists):
    """Wrap given tokens as completions of unknown log-probability."""
    longest = max(map(len, token_lists))
    tokens = [list(one) + [0] * (longest - len(one)) for one in token_lists]
    return Completions(
        tokens_NT=np.array(tokens),
        lengths_N=np.array([len(one) for one in token_lists]),
        log_probs_N=np.zeros(len(token_lists)),
        ended_N=np.ones(len(token_lists), dtype=bool),
    )


def random_enumerated(rng, prompts=1, rewards=BINARY_REWARDS):
    """Make up prompts of four completions each, with scores of mean zero."""
    drawn = [(rng.dirichlet(np.ones(4)), rng.normal(size=(4, 3))) for _ in range(prompts)]
    chance_PC, score_PCD = map(np.array, zip(*drawn, strict=True))
    score_PCD -= (chance_PC[..., None] * score_PCD).sum(1, keepdims=True)
    rewards_PC, length_PC = (np.tile(one, (prompts, 1)) for one in (rewards, range(1, 5)))
    return Enumerated(chance_PC, score_PCD, rewards_PC, length_PC)


@cache
def prompts_of(kind):
    """Three prompts whose gradients have a common part."""
    made = random_enumerated(np.random.default_rng(3), 3, KINDS[kind])
    return tilt(replace(made, length_PC=np.ones((3, 4), dtype=int)), [1.0, 0, 0])


def joined(prompts):
    """Enumerated prompts as one, of as many types of completions each."""
    return Enumerated(
        *map(np.concatenate, zip(*(vars(one).values() for one in prompts), strict=True))
    )


def of_two_kinds(rights, scores):
    """Prompts of a right and of a wrong completion: by their rewards all is known."""
    right_P1, score_PD = np.array(rights)[:, None], np.array(scores)
    return Enumerated(
        probability_PC=np.hstack([right_P1, 1 - right_P1]),
        score_PCD=np.stack([score_PD, -right_P1 / (1 - right_P1) * score_PD], axis=1),
        reward_PC=np.tile([1.0, 0.0], (len(rights), 1)),
        length_PC=np.ones((len(rights), 2), dtype=int),
    )


def trace_and_zeta(prompts):
    """T and zeta of each from the MSEs at G = 2, T/2 and T/2 + zeta/2."""
    oracle, grpo = (prompts.mse(EVERY[name], 2) for name in ("oracle", "grpo"))
    return 2 * oracle, 2 * (grpo - oracle)


def reference_noise(prompts, half):
    """Give tr Var(rbar) of a mean of two halves, which is what a plain reference adds."""
    trace, zeta = trace_and_zeta(prompts)
    return (trace / half + zeta / (half * (half - 1))) / 2


def norm_ratio(prompts):
    """Give rho: the mean ||W||^2 of right completions over that of wrong ones."""
    weights_PC, right_PC = prompts.probability_PC, prompts.reward_PC == 1
    right, wrong = (
        np.average(prompts.norms2_PC, 1, weights_PC * one) for one in (right_PC, ~right_PC)
    )
    return right / wrong


@cache
def mse_and_mean(prompts, name, size):
    """Of each prompt, each summed over all groups."""
    estimator = EVERY[name]
    return prompts.mse(estimator, size), prompts.mean_estimate(estimator, size)


def aggregate(prompts, name, size):
    """The mean over prompts: variances add up over P^2, biases as vectors."""
    (mse_P, mean_PD), gradient_PD = mse_and_mean(prompts, name, size), prompts.gradient_PD
    variance = (mse_P - ((mean_PD - gradient_PD) ** 2).sum(-1)).sum() / len(mse_P) ** 2
    mean, gradient = mean_PD.mean(0), gradient_PD.mean(0)
    bias2 = (mean - gradient) @ (mean - gradient)
    norm2, inner = gradient @ gradient, mean @ gradient
    return {
        "mse": variance + bias2,
        "bias2": bias2,
        "variance": variance,
        "slope": inner / norm2,
        "cosine": inner / np.sqrt(norm2 * (mean @ mean)),
        "scale_free_mse": norm2 - inner**2 / (variance + mean @ mean),
    }


def every_reference(prompts, half):
    """All references of two halves each: (chance, pools), by how many are right in each.

    The replicates have every kind as often as is expected; laws are linear in their norms.
    """
    chance_PH = stats.binom.pmf(np.arange(half + 1), half, prompts.probability_PC[:, :1])
    first, second = np.triu_indices(half + 1)  # The halves may change places.
    chances_PI = np.where(first < second, 2, 1) * chance_PH[:, first] * chance_PH[:, second]
    own_N = np.arange(LARGEST) % 4 > 0
    own_PN = np.where(prompts.probability_PC[:, :1] == 0.25, own_N, ~own_N) * 1
    for index in product(range(len(first)), repeat=prompts.prompts):
        halves = (
            (np.arange(half) >= right[list(index), None]) * 1 for right in (first, second)
        )
        chance = chances_PI[np.arange(prompts.prompts), list(index)].prod()
        yield chance, prompts.pools(*halves, np.hstack([own_PN, own_PN]), LARGEST)
