"""The reference gradient of a prompt, in two independent halves, and its value.

Each half is the leave-one-out estimator over its n completions,

    r_A = sum_{i in A} (Z_i - Zbar_A) W_i / (n - 1),

exactly unbiased. With rbar = (r_A + r_B)/2 and the scalar <r_A, r_B> the squared error of
any estimate g_hat is measured without bias,

    ||g_hat||^2 - 2 <g_hat, rbar> + <r_A, r_B>,

so one vector and one scalar are kept. The plain error ||g_hat - rbar||^2 is larger by
||r_A - r_B||^2 / 4, identically.

A half is one weighted backward pass. The prompt is common to its completions, so it is
run through the model once, and backward once.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.completions import Completions, SharedPrefix
from mse_lab.policy import Policy
from mse_lab.scores import sum_own_tokens

Gradient = dict[str, Tensor]


@dataclass(frozen=True)
class Reference:
    """The reference of one prompt.

    Attributes:
        mean: Parameter name -> rbar; parameters without influence are left out.
        difference: Parameter name -> r_A - r_B.
        products: Parameter name -> <r_A, r_B>, whose sum is the unbiased ||g||^2.
        distance2: ||r_A - r_B||^2.
        log_probs_N: log pi of the reference's completions, recomputed.
    """

    mean: Gradient
    difference: Gradient
    products: dict[str, float]
    distance2: float
    log_probs_N: NDArray[np.float64]


def _completion_log_probs(
    policy: Policy, prefix: SharedPrefix, completions: Completions
) -> Tensor:
    longest = int(completions.lengths_N.max())
    tokens = torch.from_numpy(completions.tokens_NT[:, :longest]).to(policy.device)
    first = torch.full((len(tokens), 1), prefix.last_token, device=policy.device)
    logits = policy.model(
        torch.cat([first, tokens[:, :-1]], dim=1),
        past_key_values=prefix.expand(len(tokens)),
        use_cache=True,
    ).logits
    return sum_own_tokens(policy, logits, tokens, completions)


def weighted_gradient(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    weights_N: NDArray[np.float64],
) -> tuple[Gradient, NDArray[np.float64]]:
    """Compute sum_i w_i W_i by backpropagation, the prompt run through once.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: Its completions.
        weights_N: A weight for each.

    Returns:
        Parameter name -> gradient, for the parameters that autograd reaches; and the
        completions' log-probabilities.
    """
    log_probs = []
    with torch.enable_grad(), policy.differentiable():
        prefix = SharedPrefix(policy, prompt)
        cut = prefix.detached()
        for start in range(0, len(completions), policy.batch):
            part = slice(start, start + policy.batch)
            log_probs_N = _completion_log_probs(policy, cut, completions[part])
            weights = torch.from_numpy(weights_N[part]).to(log_probs_N)
            (weights * log_probs_N).sum().backward()
            log_probs.append(log_probs_N.detach().double().cpu().numpy())
        prefix.backward(cut)
        gradient = {
            name: parameter.grad
            for name, parameter in policy.parameters.items()
            if parameter.grad is not None
        }
    return gradient, np.concatenate(log_probs)


def leave_one_out(rewards_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of a half: (Z_i - Zbar) / (n - 1)."""
    return (rewards_N - rewards_N.mean()) / (len(rewards_N) - 1)


def inner_product(left: Tensor, right: Tensor) -> float:
    """Multiply two gradients of one parameter, summed in float64."""
    return float(torch.dot(left.flatten().double(), right.flatten().double()))


def measure_reference(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    rewards_N: NDArray[np.float64],
) -> Reference:
    """Measure the reference gradient of a prompt.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: An even number of them; the first half is A, the second B.
        rewards_N: Their rewards.

    Returns:
        rbar, <r_A, r_B> by parameter and ||r_A - r_B||^2.
    """
    n = len(completions) // 2
    half_a, log_probs_a = weighted_gradient(
        policy, prompt, completions[:n], leave_one_out(rewards_N[:n])
    )
    half_b, log_probs_b = weighted_gradient(
        policy, prompt, completions[n:], leave_one_out(rewards_N[n:])
    )
    difference = {name: half_a[name] - half_b[name] for name in half_a}
    return Reference(
        mean={name: (half_a[name] + half_b[name]) / 2 for name in half_a},
        difference=difference,
        products={name: inner_product(half_a[name], half_b[name]) for name in half_a},
        distance2=sum(inner_product(part, part) for part in difference.values()),
        log_probs_N=np.concatenate([log_probs_a, log_probs_b]),
    )
