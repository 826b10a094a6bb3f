"""Policies with a module of another kind, and their scores by plain autograd."""

import dataclasses

import torch

from enumerated import as_completions
from models import random_policy
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.scores.score_block import score_block
from plain_scores import PROMPT, joined, random_reference, relative_gap

COMPLETIONS = as_completions([[4, 5, 6, 1], [3, 7, 1], [2]])


def policy_with(module, where="mlp"):
    """A policy with another module in the first layer's MLP's place."""
    policy = random_policy(tied=False)
    module = module().requires_grad_(False)
    if where == "mlp":
        policy.model.model.layers[0].mlp = module
    else:
        policy.model.set_input_embeddings(module)
    return dataclasses.replace(policy, parameters=dict(policy.model.named_parameters()))


def scores_alone(policy, completions):
    """Score each completion alone, by autograd; zero where it does not lead, (N, D)."""
    rows = []
    for index in range(len(completions)):
        with torch.enable_grad(), policy.differentiable():
            one = completions[index : index + 1]
            sequence_log_probs(policy, PROMPT, one).sum().backward()
            rows.append(
                torch.cat(
                    [
                        (torch.zeros_like(p) if p.grad is None else p.grad).flatten()
                        for p in policy.parameters.values()
                    ]
                )
            )
    return torch.stack(rows).double().numpy()


def assert_exact(policy, completions=COMPLETIONS, how=None, bound=1e-6):
    expected = scores_alone(policy, completions)
    reference = random_reference(policy)
    found = score_block(policy, PROMPT, completions, reference, how=how)
    assert relative_gap(found.gram_NN, expected @ expected.T) < bound
    assert relative_gap(found.products_N, expected @ joined(reference)) < bound
    assert set(found.norms2) == set(policy.parameters)
