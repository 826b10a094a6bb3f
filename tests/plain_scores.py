"""Scores by the model's own forward pass, softmax and autograd, a completion at a time.

Nothing of the library's but the temperature and the list of parameters is in this truth,
to which scores, sums, log-probabilities and the reference are held.
"""

import dataclasses

import numpy as np
import torch

from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_sums
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.score_block import Scoring, score_block
from mse_lab.scores.scoring_plan import missing_rule
from mse_lab.scores.sketches import Whole

PROMPT = [3, 4, 5, 6, 7, 3, 3, 9]


def normal(generator, *shape):
    """Draw normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def some_completions(policy, count=9):
    """Take tokens at random: peaked policies draw the same completions again and again."""
    vocabulary = len(policy.model.get_input_embeddings().weight)
    tokens_NT = np.random.default_rng(0).integers(vocabulary, size=(8 * count, 6))
    ends_NT = np.isin(tokens_NT, policy.end_tokens)
    lengths_N = np.where(ends_NT.any(1), ends_NT.argmax(1) + 1, 6)
    some = Completions(tokens_NT, lengths_N, np.zeros(8 * count), ends_NT.any(1))
    some = some.distinct()[0][:count]
    with torch.no_grad():
        log_probs = sequence_sums(policy, PROMPT, some).log_probs_N
    return dataclasses.replace(some, log_probs_N=log_probs.double().numpy())


def plain_scores(policy, completions, prompt=PROMPT):
    """Score each completion's own tokens, (N, D); give log pi and logits norms, (N,)."""
    scores, log_probs, logit_norms2 = [], [], []
    scored_NT = completions.scored_NT(completions.tokens_NT.shape[1])
    parameters = [*policy.parameters.values()]
    for tokens, own_T in zip(completions.unpadded, scored_NT, strict=True):
        own = np.flatnonzero(own_T)
        inputs = torch.tensor([[*prompt, *tokens]], device=policy.device)
        with torch.enable_grad(), policy.differentiable():
            logits = policy.model(inputs, use_cache=False).logits[0, len(prompt) - 1 :]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            scaled = logits / policy.temperature
            log_prob = scaled.log_softmax(-1)[own, tokens[own]].sum()
            d_logits, *parts = torch.autograd.grad(
                log_prob, [scaled, *parameters], materialize_grads=True
            )
        scores.append(torch.cat([part.flatten().double() for part in parts]).numpy())
        log_probs.append(float(log_prob.detach()))
        logit_norms2.append(float(d_logits.double().square().sum()))
    return np.stack(scores), np.array(log_probs), np.array(logit_norms2)


def autograd_scores(policy, completions, prompt=PROMPT):
    """Give the scores alone, (N, D)."""
    return plain_scores(policy, completions, prompt)[0]


def random_reference(policy):
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for name, p in policy.parameters.items()
    }


def joined(reference):
    return torch.cat([part.flatten() for part in reference.values()]).double().numpy()


def relative_gap(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


class Exact(Whole):
    """A gradient in the precision that it came in."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.vector = self.vector.astype(np.float64)

    def add(self, name, parts):
        at = self._starts[name]
        for part in parts:
            self.vector[at : at + part.numel()] += part.double().flatten().numpy()
            at += part.numel()


def gaps(policy, completions, how=None, truth=None):
    """Measure how far all that a block's pass gives is from the truth, relatively."""
    scores_ND, log_probs_N, logit_norms2_N = truth or plain_scores(policy, completions)
    reference, sum_D = random_reference(policy), Exact(policy.parameters)
    # One completion has no weight.
    weights_N = np.linspace(-1.0, 2.0, len(completions)) * (np.arange(len(scores_ND)) != 1)
    weighted = [Weighted(weights_N, sum_D)]
    how = how or Scoring(alone=missing_rule(policy) is not None)
    found = score_block(policy, PROMPT, completions, reference, how=how, weighted=weighted)
    gram_NN = scores_ND @ scores_ND.T
    ends = np.cumsum([part.numel() for part in policy.parameters.values()])[:-1]
    norms2 = [(part**2).sum(1) for part in np.split(scores_ND, ends, axis=1)]
    assert set(found.norms2) == set(policy.parameters)
    found_norms2 = np.array([found.norms2[name] for name in policy.parameters])
    return {
        "gram": relative_gap(found.gram_NN, gram_NN),
        "products": relative_gap(found.products_N, scores_ND @ joined(reference)),
        "norms": relative_gap(found_norms2, np.array(norms2)),
        "log pi": relative_gap(found.log_probs_N, log_probs_N),
        "logits": relative_gap(found.logit_norms2_N, logit_norms2_N),
        "sum": relative_gap(sum_D.vector, weights_N @ scores_ND),
    }


def assert_scores(policy, completions, bound, how=None, truth=None):
    """Hold all that a block's pass gives to the truth."""
    found = gaps(policy, completions, how, truth)
    assert max(found.values()) < bound, found
