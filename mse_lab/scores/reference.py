"""The reference gradient of a prompt, in two independent halves, and its value.

Each half is the leave-one-out estimator over its n completions,

    r_A = sum_{i in A} (Z_i - Zbar_A) W_i / (n - 1),

exactly unbiased. With rbar = (r_A + r_B)/2 and the scalar <r_A, r_B> the squared error of
any estimate g_hat is measured without bias,

    ||g_hat||^2 - 2 <g_hat, rbar> + <r_A, r_B>,

so one vector and one scalar are kept. The plain error ||g_hat - rbar||^2 is larger by
||r_A - r_B||^2 / 4, identically.

A half is one weighted backward pass. The prompt is common to its completions, so it is
run through the model once, and backward once; a completion that occurs several times is
one with the sum of their weights.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.arrays import Floats, Ints
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import SharedPrefix, completion_log_probs
from mse_lab.policy.policy import Policy

Gradient = dict[str, Tensor]

NUMBERS_AT_ONCE = 2**24  # Numbers turned into float64 at a time.
PASS_TOKENS = 1024  # What a pass costs whatever is in it, in tokens.


@dataclass(frozen=True)
class Reference:
    """The reference of one prompt."""

    mean: Gradient  # Parameter name -> rbar; parameters without influence are left out.
    kept_mean: NDArray[np.float32]  # rbar, or a sketch of it.
    kept_difference: NDArray[np.float32]  # r_A - r_B, or a sketch of it.
    # Parameter name -> <r_A, r_B>, whose sum is the unbiased ||g||^2.
    products: dict[str, float]
    distance2: float  # ||r_A - r_B||^2.
    log_probs_N: Floats  # log pi of the reference's completions, recomputed.


@contextmanager
def gradient_hooks(policy: Policy, see: Callable[[str, Tensor], None]) -> Iterator[None]:
    """Hand each parameter's name and gradient over as soon as a backward pass has it."""

    def hand_over(name: str, parameter: Tensor) -> None:
        gradient, parameter.grad = parameter.grad, None
        if gradient is not None:
            see(name, gradient)

    with policy.differentiable(), ExitStack() as stack:
        for name, parameter in policy.parameters.items():
            hook = partial(hand_over, name)
            handle = parameter.register_post_accumulate_grad_hook(hook)
            stack.callback(handle.remove)
        yield


def _cut(lengths_N: Ints, first: int = 0) -> list[int]:
    """Cut lengths, longest first, into passes with little padding; return their starts."""
    saved = np.arange(len(lengths_N), 0, -1) * (lengths_N[:1] - lengths_N)
    best = int(np.argmax(saved))
    if saved[best] <= PASS_TOKENS:
        return [first]
    return _cut(lengths_N[:best], first) + _cut(lengths_N[best:], first + best)


def in_passes(lengths_N: Ints, most: int) -> list[Ints]:
    """Split completions into passes of at most `most`, those of like length together.

    >>> [list(map(int, part)) for part in in_passes(np.array([9, 2000, 8, 7]), 2)]
    [[1], [0, 2], [3]]
    """
    order = np.argsort(-lengths_N, kind="stable")
    alike = np.split(order, _cut(lengths_N[order])[1:])
    return [part[at : at + most] for part in alike for at in range(0, len(part), most)]


def weighted_gradient(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    weights_N: Floats,
    max_batch: int | None = None,
) -> tuple[Gradient, Floats]:
    """Compute sum_i w_i W_i by backpropagation, the prompt run through once.

    At most `max_batch` completions are in one pass; None for no limit. Give the gradient by
    name, where autograd reaches it, in float32 or better; and the log-probabilities.
    """
    sums = Gradient()

    def add(name: str, gradient: Tensor) -> None:
        if name in sums:
            sums[name] += gradient
        else:
            sums[name] = gradient if gradient.dtype == torch.float64 else gradient.float()

    log_probs_N = add_weighted_gradients(
        policy, prompt, completions, weights_N, add, max_batch
    )
    # Autograd reaches the parameters in the order of the pass; sketches want the model's.
    return {name: sums[name] for name in policy.parameters if name in sums}, log_probs_N


def add_weighted_gradients(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    weights_N: Floats,
    add: Callable[[str, Tensor], None],
    max_batch: int | None,
) -> Floats:
    """Hand sum_i w_i W_i over, a parameter's addends one by one; give log-probabilities.

    Else as `weighted_gradient`.
    """
    distinct, place_N = completions.distinct()
    weights_N = np.bincount(place_N, weights_N).astype(np.float64)
    log_probs = np.empty(len(distinct))
    with torch.enable_grad(), gradient_hooks(policy, add):
        prefix = SharedPrefix(policy, prompt)
        cut = prefix.detached()
        for part in in_passes(distinct.lengths_N, max_batch or len(distinct)):
            of_part = completion_log_probs(policy, cut, distinct[part])
            (torch.from_numpy(weights_N[part]).to(of_part) * of_part).sum().backward()
            log_probs[part] = of_part.detach().double().cpu().numpy()
        prefix.backward(cut)
    return log_probs[place_N]


def leave_one_out(rewards_N: Floats) -> Floats:
    """Weights of a half: (Z_i - Zbar) / (n - 1)."""
    return (rewards_N - rewards_N.mean()) / (len(rewards_N) - 1)


def inner_product(left: Tensor, right: Tensor) -> float:
    """Multiply two gradients of one parameter, summed in float64."""
    chunks = (side.flatten().split(NUMBERS_AT_ONCE) for side in (left, right))
    pairs = zip(*chunks, strict=True)
    return float(sum(torch.dot(one.double(), other.double()) for one, other in pairs))


def measure_reference(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    rewards_N: Floats,
    keep: Callable[[Gradient], NDArray[np.float32]],
    *,
    max_batch: int | None = None,
) -> Reference:
    """Measure the reference gradient, A of the first half of completions, B of the other.

    `keep` says what is kept of a gradient beyond this prompt: itself, or a sketch. A pass
    has `max_batch` completions at most; None for no limit.
    """
    n = len(completions) // 2
    (half_a, log_probs_a), (half_b, log_probs_b) = (
        weighted_gradient(
            policy, prompt, completions[half], leave_one_out(rewards_N[half]), max_batch
        )
        for half in (slice(n), slice(n, None))
    )
    for one, other in ((half_a, half_b), (half_b, half_a)):
        # An expert that only the other half's completions were sent to.
        one.update({name: torch.zeros_like(other[name]) for name in other.keys() - one})
    products = {name: inner_product(half_a[name], half_b[name]) for name in half_a}
    # In place, two vectors of D at most: r_A - r_B, then rbar = r_B + (r_A - r_B) / 2.
    for name, part in half_b.items():
        half_a[name] -= part
    difference = keep(half_a)
    distance2 = sum(inner_product(part, part) for part in half_a.values())
    for name, part in half_b.items():
        part.add_(half_a.pop(name), alpha=0.5)
    return Reference(
        mean=half_b,
        kept_mean=keep(half_b),
        kept_difference=difference,
        products=products,
        distance2=distance2,
        log_probs_N=np.concatenate([log_probs_a, log_probs_b]),
    )
