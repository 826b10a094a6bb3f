"""Policies with a module of another kind, and their scores by plain autograd."""

import dataclasses

from enumerated import as_completions
from models import random_policy
from plain_scores import assert_scores

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


def assert_exact(policy, completions=COMPLETIONS, how=None):
    assert_scores(policy, completions, 1e-6, how)
