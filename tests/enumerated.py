"""A policy small enough to enumerate: exact gradient, moments and MSE, by brute force.

Completions of a prompt are finitely many types with known probabilities. A group of G is
a multinomial draw of types, so the mean of anything over groups is a finite sum.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, product

import numpy as np
import torch
from scipy.special import gammaln

from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from simulated import Design


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

    @cached_property
    def _known_groups(self):
        return {}

    def groups(self, size):
        if size not in self._known_groups:
            self._known_groups[size] = self._enumerate_groups(size)
        return self._known_groups[size]

    def _enumerate_groups(self, size):
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


def plain_score(policy, prompt, tokens):
    """Give log pi(Y | x) and its gradient, by the model's own forward pass and softmax.

    Nothing of the library's but the temperature and the list of parameters.
    """
    inputs = torch.tensor([[*prompt, *tokens]])
    with torch.enable_grad(), policy.differentiable():
        logits = policy.model(input_ids=inputs).logits[0, len(prompt) - 1 : -1]
        table = (logits / policy.temperature).log_softmax(-1)
        log_prob = table[range(len(tokens)), tokens].sum()
        log_prob.backward()
        parts = [p.grad.flatten().double() for p in policy.parameters.values()]
    return float(log_prob.detach()), torch.cat(parts).numpy()


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
    log_probs, scores = [], []
    for tokens in kept:
        log_prob, score = plain_score(policy, prompt, tokens)
        scores.append(score)
        log_probs.append(log_prob)
    probabilities = np.exp(log_probs)
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-6)
    return Enumerated(
        completions=kept,
        probabilities=probabilities / probabilities.sum(),
        rewards=np.array([float(reward(tokens)) for tokens in kept]),
        lengths=np.array([len(tokens) for tokens in kept]),
        scores=np.array(scores),
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


def random_enumerated(rng, kinds=4, dimensions=3, rewards=(1.0, 0.0, 1.0, 0.0)):
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
