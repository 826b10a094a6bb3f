"""Products of a prompt's Hessian with vectors, by differentiating twice.

The Hessian of V(x) = E[Z] is H = E[(Z - V)(W W' + d2 log pi)]. With weights
a_i = (Z_i - Zbar)/(n - 1) of n completions, sum_i a_i (W_i W_i' + d2 log pi_i) is without
bias for H, and it is the Hessian of

    L(theta) = sum_i a_i exp(log pi_i(theta) - log pi_i(theta_0))

at theta_0 (Foerster et al. 2018). So H v is one more backward pass through the graph of L's
gradient, which all vectors share. Fused kernels of attention cannot be differentiated
twice; their plain form is used here.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mse_lab.arrays import Floats
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_logits,
    padded_tokens,
    sum_over_tokens,
)
from mse_lab.policy.policy import Policy
from mse_lab.scores.reference import in_passes

# Of attention's kernels the one that can be differentiated twice.
plain_attention = partial(sdpa_kernel, SDPBackend.MATH)


def twice_differentiable(
    policy: Policy, prefix: SharedPrefix, completions: Completions
) -> Tensor:
    """Compute log pi(Y_i | x), differentiable more than once, (N,)."""
    tokens_NT = padded_tokens(policy, completions)
    table = policy.log_probabilities(completion_logits(policy, prefix, tokens_NT))
    picked = tokens_NT.to(table.device)[..., None]
    return sum_over_tokens(table.gather(-1, picked)[..., 0], completions)


def as_vector(policy: Policy, gradient: Mapping[str, Tensor]) -> Tensor:
    """Join a gradient into one vector (D,) in the order of the policy's parameters.

    Parameters that it leaves out are zeros.
    """
    parts = [
        gradient.get(name, torch.zeros_like(parameter)).detach().flatten()
        for name, parameter in policy.parameters.items()
    ]
    return torch.cat([part.to(parts[0].device) for part in parts])


def differentiate_slopes(
    policy: Policy, value: Tensor, vectors_KD: Tensor, products_KD: Tensor
) -> None:
    """Add the products of vectors with a value's Hessian in the policy's parameters."""
    parameters = [*policy.parameters.values()]
    slopes = torch.autograd.grad(
        value, parameters, create_graph=True, materialize_grads=True
    )
    sizes = [parameter.numel() for parameter in parameters]
    for product_D, vector_D in zip(products_KD, vectors_KD, strict=True):
        pairs = zip(vector_D.split(sizes), parameters, strict=True)
        found = torch.autograd.grad(
            slopes,
            parameters,
            [piece.view_as(parameter).to(parameter) for piece, parameter in pairs],
            retain_graph=True,
            materialize_grads=True,
        )
        for part, one in zip(product_D.split(sizes), found, strict=True):
            part += one.flatten().to(part)


def add_hessian_products(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    weights_N: Floats,
    vectors_KD: Tensor,
    products_KD: Tensor,
    max_batch: int | None = None,
) -> None:
    """Add sum_i a_i (W_i W_i' + d2 log pi_i) v of each vector v to its product, (K, D).

    With the leave-one-out weights of completions that v is independent of, this is H v
    without bias. A pass has `max_batch` completions at most; None for no limit.
    """
    distinct, place_N = completions.distinct()
    weights = torch.from_numpy(np.bincount(place_N, weights_N))
    if not weights.any():
        return
    for part in in_passes(distinct.lengths_N, max_batch or len(distinct)):
        with torch.enable_grad(), policy.differentiable(), plain_attention():
            log_probs = twice_differentiable(
                policy, SharedPrefix(policy, prompt), distinct[part]
            )
            ratios = (log_probs - log_probs.detach()).exp()
            surrogate = (weights[part].to(ratios) * ratios).sum()
            differentiate_slopes(policy, surrogate, vectors_KD, products_KD)
