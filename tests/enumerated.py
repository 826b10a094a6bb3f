"""Prompts all of whose completions are known: gradient, moments and MSE by brute force.

Completions of a prompt are finitely many types with known probabilities. A group of G is
a multinomial draw of types, so the mean of anything over groups is a finite sum.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations_with_replacement, product

import numpy as np
from scipy import stats
from scipy.special import gammaln

from every_estimator import EVERY
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from plain_scores import plain_scores
from simulated import Design

BINARY_REWARDS, GRADED_REWARDS = (1.0, 0.0, 1.0, 0.0), (1.0, -0.5, 0.4, 0.0)
KINDS = {"binary": BINARY_REWARDS, "graded": GRADED_REWARDS}
LARGEST = 8  # G of the blocks of replicates.


@dataclass(frozen=True, eq=False)
class Enumerated:
    """All completions of a prompt: tokens, probabilities, rewards and scores of C types."""

    completions: list[tuple[int, ...]]
    probabilities: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    scores: np.ndarray

    @cached_property
    def value(self):
        return float(self.probabilities @ self.rewards)

    @cached_property
    def gradient(self):
        return (self.probabilities * self.rewards) @ self.scores

    @cached_property
    def gram(self):
        return self.scores @ self.scores.T

    def mean(self, values):
        return float(self.probabilities @ values)

    def moments(self):
        parts = (self.probabilities, self.scores, self.rewards)
        return Design(*(part[None] for part in parts)).moments()

    @cache  # noqa: B019 - a policy lives as long as the tests
    def groups(self, size):
        """Every group of `size` completions, with its probability.

        Multisets with their multinomial probability; all ordered groups where there are
        few, for estimators whose weights depend on the order among equals.
        """
        kinds = range(len(self.rewards))
        ordered = len(kinds) ** size <= 2**16
        ways = (
            product(kinds, repeat=size)
            if ordered
            else combinations_with_replacement(kinds, size)
        )
        types = np.array(list(ways))
        counts = (types[..., None] == np.arange(len(kinds))).sum(1)
        log_ways = 0.0 if ordered else gammaln(size + 1) - gammaln(counts + 1).sum(1)
        log_probability = counts @ np.log(self.probabilities)
        norms2 = np.diag(self.gram)
        groups = Groups(
            rewards_PRG=self.rewards[types][None],
            lengths_PRG=self.lengths[types][None],
            norms2_PRG=norms2[types][None],
            value_P=np.array([self.value]),
            best_constant_PR=np.full(
                (1, len(types)), self.mean(self.rewards * norms2) / self.mean(norms2)
            ),
            logit_norms2_PRG=np.sqrt(norms2)[types][None],
        )
        return types, groups, np.exp(log_ways + log_probability)

    def mse(self, estimator, size):
        """Exact E||g_hat - g||^2 of an estimator, by summing over all groups."""
        types, groups, probability = self.groups(size)
        weights = estimator.weights(groups)[0] / size
        # g_hat - g as a sum of the kinds' scores.
        kinds = range(len(self.rewards))
        coefficients = np.stack([(weights * (types == k)).sum(1) for k in kinds], -1)
        coefficients -= self.probabilities * self.rewards
        return float(((coefficients @ self.gram) * coefficients).sum(-1) @ probability)

    def mean_estimate(self, estimator, size):
        """Exact E g_hat, a vector."""
        types, groups, probability = self.groups(size)
        shares = probability[:, None] * estimator.weights(groups)[0] / size
        return np.bincount(types.ravel(), shares.ravel(), len(self.rewards)) @ self.scores


def ends(policy, tokens):
    """Tell whether tokens end a completion, from the whole text."""
    stops = () if policy.stops is None else policy.stops.texts
    text = policy.tokenizer.decode(tokens, skip_special_tokens=True) if stops else ""
    return tokens[-1] in policy.end_tokens or any(stop in text for stop in stops)


def enumerate_policy(policy, prompt, vocabulary, positions, reward):
    """Enumerate the completions of at most `positions` tokens.

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
    return Enumerated(
        completions=kept,
        probabilities=probabilities / probabilities.sum(),
        rewards=np.array([float(reward(tokens)) for tokens in kept]),
        lengths=np.array([len(tokens) for tokens in kept]),
        scores=scores,
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


def random_enumerated(rng, kinds=4, dimensions=3, rewards=BINARY_REWARDS):
    """Make up a policy of a few completions, with scores of mean zero."""
    probabilities = rng.dirichlet(np.ones(kinds))
    scores = rng.standard_normal((kinds, dimensions))
    return Enumerated(
        completions=[(kind,) for kind in range(kinds)],
        probabilities=probabilities,
        rewards=np.array(rewards),
        lengths=np.arange(1, kinds + 1),
        scores=scores - probabilities @ scores,
    )


@cache
def prompts_of(kind):
    """Three prompts whose gradients have a common part."""
    rng = np.random.default_rng(3)
    prompts = [random_enumerated(rng, rewards=KINDS[kind]) for _ in range(3)]
    step = np.array([1.0, 0, 0])
    return [
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
    oracle, grpo = (prompt.mse(EVERY[name], 2) for name in ("oracle", "grpo"))
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
    estimator = EVERY[name]
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
