"""Products with a prompt's Hessian: against the enumerated J, differentiated twice."""

from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from enumerated import as_completions, enumerate_policy
from models import random_policy
from mse_lab.policy.completions import concatenate
from mse_lab.scores.curvature import add_hessian_products, as_vector
from mse_lab.scores.reference import leave_one_out

PROMPT = [2, 3]

# The norms of the last two are computed in float32 whatever the model's precision.
BOUNDS = {"gpt2": 1e-8, "opt": 1e-8, "gpt_neox": 1e-8, "qwen2": 1e-4, "gemma2": 1e-4}


def reward(tokens):
    return float(sum(tokens) % 3 == 0) + 0.5 * len(tokens)


@cache
def enumerated(architecture):
    policy = random_policy(architecture, vocabulary=4, ends=(1,))
    return policy, enumerate_policy(policy, PROMPT, 4, 2, reward)


def vectors_of(policy, count=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, policy.size, generator=generator, dtype=torch.float64)


def products_of(policy, completions, weights, vectors, most=None):
    """Added to ones, to see that they are added."""
    found = torch.ones_like(vectors)
    add_hessian_products(policy, PROMPT, completions, weights, vectors, found, most)
    return found - 1


def parts_of(policy, vector):
    shapes = [parameter.shape for parameter in policy.parameters.values()]
    pieces = vector.split([shape.numel() for shape in shapes])
    return tuple(piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True))


def value_at(policy, exact, *parameters):
    """J, by summing pi(Y) Z over all completions."""
    named, total = dict(zip(policy.parameters, parameters, strict=True)), 0.0
    for tokens, earned in zip(exact.completions, exact.rewards, strict=True):
        inputs = (torch.tensor([[*PROMPT, *tokens]]),)
        out = torch.func.functional_call(policy.model, named, inputs, {"use_cache": False})
        table = (out.logits[0, len(PROMPT) - 1 : -1] / policy.temperature).log_softmax(-1)
        total = total + earned * table[range(len(tokens)), tokens].sum().exp()
    return total


@pytest.mark.parametrize("architecture", BOUNDS)
def test_the_hessian_of_the_enumerated_value(architecture):
    policy, exact = enumerated(architecture)
    vectors = vectors_of(policy, 1)
    found = products_of(
        policy,
        as_completions(exact.completions),
        exact.probabilities * (exact.rewards - exact.value),
        vectors,
    )
    start = tuple(one.detach() for one in policy.parameters.values())
    with sdpa_kernel(SDPBackend.MATH):
        for vector, one in zip(vectors, found, strict=True):
            _, expected = torch.autograd.functional.hvp(
                partial(value_at, policy, exact), start, parts_of(policy, vector)
            )
            expected = torch.cat([part.flatten() for part in expected])
            gap = (one - expected).abs().max() / expected.abs().max()
            assert gap < BOUNDS[architecture]


def test_without_bias_over_all_pairs_of_completions():
    """The mean over pairs of kinds; a pair's product is linear in what each kind gives."""
    policy, exact = enumerated("gpt2")
    kinds, vectors = range(len(exact.rewards)), vectors_of(policy, 1)
    completions = as_completions(exact.completions)

    def single(kind):
        one = completions[np.array([kind])]
        return products_of(policy, one, np.ones(1), vectors)[0]

    by_kind = torch.stack([single(kind) for kind in kinds])
    mean = torch.zeros(policy.size, dtype=torch.float64)
    for pair in map(list, product(kinds, repeat=2)):
        apart = exact.rewards[pair] - exact.rewards[pair].mean()
        mean += torch.tensor(apart * exact.probabilities[pair].prod()) @ by_kind[pair]
    apart = torch.tensor(exact.probabilities * (exact.rewards - exact.value))
    torch.testing.assert_close(mean, apart @ by_kind, rtol=1e-9, atol=1e-10)


def test_passes_repetitions_and_order_change_nothing():
    """Five completions, two of them equal, at once and one or two at a time."""
    policy, exact = enumerated("gpt2")
    drawn = as_completions(exact.completions)[np.array([0, 5, 3, 5, 9])]
    rewards, vectors = np.array([1.0, 0.0, 0.5, 0.25, 0.0]), vectors_of(policy)
    weights = leave_one_out(rewards)
    whole = products_of(policy, drawn, weights, vectors)
    expected = sum(
        products_of(policy, drawn[at], weights[at], vectors)
        for at in (slice(2), slice(2, None))
    )
    torch.testing.assert_close(whole, expected)
    for most in (1, 2):
        again = products_of(policy, drawn, weights, vectors, most)
        torch.testing.assert_close(again, whole)
    turned = concatenate([drawn[3:], drawn[:3]])
    again = products_of(policy, turned, np.roll(weights, 2), vectors)
    torch.testing.assert_close(again, whole)


def test_equal_rewards_curve_nothing():
    policy, exact = enumerated("gpt2")
    drawn = as_completions(exact.completions)[np.array([0, 5, 3])]
    found = products_of(policy, drawn, leave_one_out(np.ones(3)), vectors_of(policy))
    assert not found.any()


def test_no_gradient_stays_behind():
    policy, exact = enumerated("gpt2")
    drawn = as_completions(exact.completions)[np.array([0, 5, 3])]
    products_of(policy, drawn, np.arange(3.0), vectors_of(policy))
    assert all(one.grad is None for one in policy.parameters.values())
    assert not any(one.requires_grad for one in policy.parameters.values())


def test_a_parameter_that_a_gradient_leaves_out_is_zero():
    policy, _ = enumerated("gpt2")
    (first, parameter), *_ = policy.parameters.items()
    vector = as_vector(policy, {first: torch.ones_like(parameter)})
    assert len(vector) == policy.size
    assert vector[: parameter.numel()].all()
    assert not vector[parameter.numel() :].any()
