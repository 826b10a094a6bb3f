"""The weighted sum of a block's scores, of the pass that gives their inner products."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch

from models import random_policy
from mse_lab.policy.policy import select_parameters
from mse_lab.scores import factors
from mse_lab.scores.factors import Dense, OuterProducts, RoutedProducts, RowSums
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import Scoring, score_block
from mse_lab.scores.sketches import Sketch, Whole
from mse_lab.scores.weighted_sum import weighted_sum
from plain_scores import PROMPT, random_reference, relative_gap, some_completions

WAYS = {
    "whole": Scoring(9),
    "parts of layers": Scoring(9, layer=4),
    "sliced": Scoring(9, sliced=True),
    "blocks": Scoring(4),
}
# Each completion weighed, one not at all, in a model with every kind of factor.
WEIGHTS = np.linspace(-1.0, 2.0, 9) * (np.arange(9) != 5)
N, T, R, C, E = 3, 5, 7, 4, 2


def by_autograd(policy, completions, weights):
    found, _ = weighted_gradient(policy, PROMPT, completions, weights)
    whole = Whole(policy.parameters)
    for name, part in found.items():
        whole.add(name, [part])
    return whole.vector


class Exact(Whole):
    """A gradient in the precision that it came in."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.vector = self.vector.astype(np.float64)

    def add(self, name, parts):
        at = self._starts[name]
        for part in parts:
            self.vector[at : at + len(part)] += part.double().numpy()
            at += len(part)


def in_one_pass(policy, completions, weights, how=None, keeper=None):
    keeper = keeper or Exact(policy.parameters)
    weighted = Weighted(weights, keeper)
    scores = score_block(policy, PROMPT, completions, None, how=how, weighted=weighted)
    return scores, keeper.vector


ARCHITECTURES = ("gpt2", "qwen2", "gemma2", "qwen3_moe", "gpt_oss", "mixtral", "jamba")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_pass_gives_the_gradient_of_autograd(monkeypatch, architecture, way):
    """Tied matrices, experts, parts of layers, slices; float32 in the norms of some."""
    monkeypatch.setattr(factors, "SLICE_BYTES", 1000)
    policy = random_policy(architecture, tied=architecture in ("gpt2", "gemma2", "qwen2"))
    completions = some_completions(policy)
    expected = by_autograd(policy, completions, WEIGHTS)
    scores, found = in_one_pass(policy, completions, WEIGHTS, WAYS[way])
    assert relative_gap(found, expected) < 1e-5
    known = np.isfinite(scores.gram_NN)
    if known.all():
        norm2 = WEIGHTS @ scores.gram_NN @ WEIGHTS
        np.testing.assert_allclose(found @ found, norm2, rtol=1e-5)


def test_without_a_reference_inner_products_are_the_same():
    policy = random_policy("qwen3_moe", tied=False)
    completions = some_completions(policy)
    expected = score_block(policy, PROMPT, completions, random_reference(policy))
    found, _ = in_one_pass(policy, completions, WEIGHTS)
    np.testing.assert_array_equal(found.gram_NN, expected.gram_NN)
    assert found.norms2.keys() == expected.norms2.keys()
    assert not found.products_N.any()


def test_equal_completions_are_differentiated_once_with_the_sum_of_their_weights():
    policy = random_policy("gpt2")
    completions = some_completions(policy)[np.array([3, 1, 3, 0, 1])]
    weights = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
    _, found = in_one_pass(policy, completions, weights)
    expected = by_autograd(policy, completions, weights)
    np.testing.assert_allclose(found, expected, atol=1e-6 * abs(expected).max())


def test_the_sketch_is_that_of_the_whole_gradient():
    """By name, whatever order the backward pass meets the parameters in."""
    policy = random_policy("gpt2")
    completions = some_completions(policy)
    gradient, _ = weighted_gradient(policy, PROMPT, completions, WEIGHTS)
    expected = Sketch(policy.parameters, 3, 64)
    for name, part in gradient.items():
        expected.add(name, [part])
    _, found = in_one_pass(
        policy, completions, WEIGHTS, keeper=Sketch(policy.parameters, 3, 64)
    )
    atol = 1e-5 * abs(expected.vector).max()
    np.testing.assert_allclose(found, expected.vector, atol=atol)


def test_a_choice_of_parameters_has_the_gradient_in_those():
    policy = random_policy("qwen2")
    chosen = select_parameters(policy.model, ["layers.1", "norm"])
    policy = dataclasses.replace(policy, parameters=chosen)
    completions = some_completions(policy)
    whole = Whole(policy.parameters)
    _, found = in_one_pass(policy, completions, WEIGHTS, Scoring(4), whole)
    expected = by_autograd(policy, completions, WEIGHTS)
    assert relative_gap(found, expected) < 1e-5


def test_the_parameters_of_an_adapter():
    peft = pytest.importorskip("peft", reason="adapters need the extra lora")
    settings = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    base = random_policy("qwen2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base.model, settings).eval().requires_grad_(False)
    named = {name: p for name, p in model.named_parameters() if "lora" in name}
    for part in named.values():
        torch.nn.init.normal_(part)
    policy = dataclasses.replace(base, model=model, parameters=named)
    completions = some_completions(policy)
    _, found = in_one_pass(policy, completions, WEIGHTS)
    assert relative_gap(found, by_autograd(policy, completions, WEIGHTS)) < 1e-5


def normal(*shape):
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


PRODUCTS = OuterProducts(normal(N, T, R), normal(N, T, C))
SHARED = OuterProducts(normal(N, T, R), normal(1, T, C).expand(N, T, C), shared=3)
ROWS = RowSums(torch.tensor([[0, 6, 3], [3, 3, 1], [2, 5, 4]]), normal(N, 3, C))
EXPERT_NT = torch.tensor([[0, 1, 1, 0, 1], [0] * T, [1, 0, 0, 1, 1]])
ROUTED = RoutedProducts(normal(N, T, R), normal(N, T, C), EXPERT_NT)
DENSE = Dense(normal(N, R, C))
USES = {
    "products": ([PRODUCTS], (R, C)),
    "shared": ([SHARED], (R, C)),
    "rows": ([ROWS], (R, C)),
    "tied": ([PRODUCTS, ROWS], (R, C)),
    "experts": ([ROUTED], (E, R, C)),
    "dense": ([DENSE], (R, C)),
    "dense and products": ([DENSE, PRODUCTS], (R, C)),
}


@pytest.mark.parametrize("slice_bytes", [1, 100, 2**20])
@pytest.mark.parametrize("kind", USES)
def test_every_kind_of_factor(monkeypatch, kind, slice_bytes):
    monkeypatch.setattr(factors, "SLICE_BYTES", slice_bytes)
    uses, shape = USES[kind]
    shape, weights = torch.Size(shape), torch.tensor([1.0, -2.0, 0.5]).double()
    found = torch.cat(list(weighted_sum(uses, weights, shape)))
    torch.testing.assert_close(found, sum(weights @ one.dense(shape) for one in uses))


def test_parts_of_any_size_have_one_sketch():
    numbers = normal(1000)
    kept, whole = (Sketch({"b": numbers[:9], "a": numbers}, 0, 16) for _ in range(2))
    kept.add("a", numbers.split([1, 0, 46, 48, 205, 700]))
    whole.add("a", [numbers])
    np.testing.assert_array_equal(kept.vector, whole.vector)
