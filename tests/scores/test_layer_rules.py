"""Rules: any module in a model's place has exact scores, or is refused by name."""

import dataclasses
import re

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from enumerated import as_completions
from models import random_policy
from mse_lab.errors import InputError
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import select_parameters
from mse_lab.scores import autograd_rule as replays
from mse_lab.scores import recorder
from mse_lab.scores.block import Scoring, score_block
from mse_lab.scores.factors import (
    Dense,
    OuterProducts,
    RoutedProducts,
    RowSums,
)
from mse_lab.scores.scoring_plan import find_plan
from mse_lab.scores.tied_parameters import reduce_factors
from scores.test_block import PROMPT, joined, random_reference, relative_gap

H = 16
COMPLETIONS = as_completions([[4, 5, 6, 1], [3, 7, 1], [2]])


def weight(*shape):
    generator = torch.Generator().manual_seed(3)
    return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))


class Scaled(nn.Linear):
    """A linear layer that does something else with its product."""

    def __init__(self):
        super().__init__(H, H, dtype=torch.float64)

    def forward(self, x):
        return torch.tanh(super().forward(x)) * 3


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = weight()

    def forward(self, x, *, y):
        return self.gain * x + y


class CallsTwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = TwoInputs()

    def forward(self, x):
        return self.inner(x, y=x.sin())


class Bypass(nn.Module):
    """Uses a child's weight without calling the child."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(H, H, dtype=torch.float64)

    def forward(self, x):
        return x @ self.inner.weight.T + self.inner.bias


class Tanh(nn.Module):
    """Looks like a norm, and is not affine in its weight."""

    def __init__(self):
        super().__init__()
        self.weight = weight(H)

    def forward(self, x):
        return torch.tanh(self.weight * x)


class Mixing(nn.Module):
    """Looks like a norm, and every entry depends on the whole weight."""

    def __init__(self):
        super().__init__()
        self.weight = weight(H)

    def forward(self, x):
        return x * (self.weight + self.weight.mean())


class PlusOne(nn.Module):
    """A norm that adds 1 to its weight, and has a bias."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = weight(H), weight(H)

    def forward(self, x):
        return nn.functional.normalize(x, dim=-1) * (1 + self.weight) + self.bias


class Several(nn.Module):
    """Gives three results in a dictionary, one from another and one that nothing uses."""

    def __init__(self):
        super().__init__()
        self.matrix = weight(H, H)

    def forward(self, x):
        first = x @ self.matrix
        return {"first": first, "second": first.sin(), "unused": first.cos()}


class CallsSeveral(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Several()

    def forward(self, x):
        found = self.inner(x)
        return found["first"] + found["second"]


class Flat(nn.Module):
    """Flattens the tokens, and multiplies twice with the same matrix."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(H, H, dtype=torch.float64)

    def forward(self, x):
        flat = x.reshape(-1, H)
        return self.inner(self.inner(flat).sin()).reshape(x.shape)


class Router(nn.Module):
    """As routers do: multiplies in another precision, and gives indices, too."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = weight(3, H), weight(3)

    def forward(self, x):
        logits = nn.functional.linear(
            x.type(torch.float32), self.weight.type(torch.float32), self.bias.float()
        )
        return logits.softmax(-1).double(), logits.argmax(-1)


class Experts(nn.Module):
    """Experts in a list, each called with the tokens that are routed to it, if any."""

    def __init__(self):
        super().__init__()
        self.router = Router()
        self.experts = nn.ModuleList(nn.Linear(H, H, dtype=torch.float64) for _ in range(4))

    def forward(self, x):
        flat = x.reshape(-1, H)
        weights, chosen = self.router(flat)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            (tokens,) = torch.where(chosen == number)
            if len(tokens):
                result[tokens] = expert(flat[tokens]) * weights[tokens, [number]][:, None]
        return result.reshape(x.shape)


class InPlace(nn.Module):
    """Writes over the input of a linear layer."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(H, H, dtype=torch.float64)

    def forward(self, x):
        x = x.sin()
        y = self.inner(x)
        x *= 2
        return x + y


class AddsInPlace(InPlace):
    """Writes over the result of a linear layer."""

    def forward(self, x):
        y = self.inner(x)
        y += x
        return y


class GivesView(Tanh):
    def forward(self, x):
        return (self.weight * x).view(x.shape)


class AddsToView(nn.Module):
    """Writes over a view, which loses its hooks."""

    def __init__(self):
        super().__init__()
        self.inner = GivesView()

    def forward(self, x):
        y = self.inner(x)
        y += x
        return y


class Positions(nn.Module):
    """Looks up positions once for all completions."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, H, dtype=torch.float64)

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[1])[None])


class BarePositions(Positions):
    """The same without a dimension for completions."""

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[1]))


class Unused(nn.Module):
    """Calls a layer whose result only the longest completions need."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(H, H, dtype=torch.float64)

    def forward(self, x):
        extra = self.inner(x)
        return x + extra if x.shape[1] > len(PROMPT) + 2 else x * 2


class ScaledTable(nn.Embedding):
    def __init__(self):
        super().__init__(11, H, padding_idx=0, dtype=torch.float64)

    def forward(self, tokens):
        return super().forward(tokens) * 4.0


def linear():
    return nn.Linear(H, H, dtype=torch.float64)


def with_hook():
    module = linear()
    module.register_forward_hook(lambda module, inputs, output: output.sin())
    return module


def with_hook_before():
    module = linear()
    module.register_forward_pre_hook(lambda module, inputs: (inputs[0].sin(),))
    return module


def with_other_forward():
    module = linear()
    module.forward = lambda x: nn.functional.linear(x, module.weight * 2, module.bias)
    return module


MODULES = {
    "linear subclass": Scaled,
    "linear with a hook": with_hook,
    "linear with a hook before it": with_hook_before,
    "linear with another forward": with_other_forward,
    "weight norm": lambda: parametrizations.weight_norm(linear()),
    "layer norm": lambda: nn.LayerNorm(H, dtype=torch.float64),
    "rms norm": lambda: nn.RMSNorm(H, dtype=torch.float64),
    "norm that adds one": PlusOne,
    "like a norm, not affine": Tanh,
    "like a norm, not by entries": Mixing,
    "two inputs, a scalar": CallsTwoInputs,
    "several results": CallsSeveral,
    "flattened tokens": Flat,
    "experts in a list": Experts,
    "used without a call": Bypass,
    "result changed in place": AddsInPlace,
    "view changed in place": AddsToView,
    "positions": Positions,
    "positions without a batch": BarePositions,
}


def policy_with(module, where="mlp"):
    """A policy with another module in the first layer's MLP's place."""
    policy = random_policy(tied=False)
    module = module().requires_grad_(False)
    if where == "mlp":
        policy.model.model.layers[0].mlp = module
    else:
        policy.model.set_input_embeddings(module)
    parameters = dict(policy.model.named_parameters())
    return dataclasses.replace(policy, parameters=parameters)


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


@pytest.mark.parametrize("layer", [None, 2], ids=["whole", "parts of layers"])
@pytest.mark.parametrize("name", MODULES)
def test_any_module_is_exact(name, layer):
    assert_exact(policy_with(MODULES[name]), how=Scoring(3, layer=layer))


def test_a_subclass_of_an_embedding_has_factors():
    policy = policy_with(ScaledTable, "embedding")
    assert_exact(policy, as_completions([[0, 4, 0, 1], [3, 0, 1], [2]]))


def test_what_a_block_does_not_depend_on_has_no_score():
    """Its module is called, and its reference is not zero."""
    policy = policy_with(Unused)
    short = as_completions([[4, 1], [2]])
    found = score_block(policy, PROMPT, short, random_reference(policy))
    inner = [name for name in policy.parameters if "inner" in name]
    assert len(inner) == 2
    assert all((found.norms2[name] == 0).all() for name in inner)
    assert_exact(policy, as_completions([[4, 5, 6, 7, 8, 1], [5, 6, 9, 9, 8, 7]]))


def test_an_input_changed_in_place_is_no_silent_error():
    """Autograd's own error, as where the parameters are trained."""
    policy = policy_with(InPlace)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        score_block(policy, PROMPT, COMPLETIONS, random_reference(policy))


def test_positions_within_a_module_that_is_no_layer():
    """An expanded result, one row for each completion, also where a layer is cut."""
    policy = policy_with(Positions)
    assert_exact(policy, how=Scoring(3, layer=1))


class Around(nn.Module):
    """Weighs its input by what a module gives first."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        found = self.inner(x)
        first = found if isinstance(found, torch.Tensor) else found[0]
        return first[..., :2].sum(-1, keepdim=True) * x


@pytest.mark.parametrize(
    ("module", "rule"),
    [
        (MODULES["rms norm"], "slope at weight 1"),
        (PlusOne, "slope at weight 0"),
        (MODULES["layer norm"], "slope at weight 1"),
        (linear, "closed form"),
        (Scaled, "run again together"),
        (Router, "run again together"),
        (Tanh, "run again one by one"),
    ],
)
def test_the_rule_taken(module, rule):
    """Cheap where it can be: what has a rule is not run for each completion alone."""
    policy = policy_with(lambda: Around(module()))
    chosen = select_parameters(policy.model, ["mlp.inner"])
    policy = dataclasses.replace(policy, parameters=chosen)
    assert_exact(policy)
    [answer] = find_plan(policy).answers.values()
    assert (answer.module, answer.rule.name) == ("model.layers.0.mlp.inner", rule)


def refusal(policy):
    with pytest.raises(InputError, match="no exact score for") as refused:
        score_block(policy, PROMPT, COMPLETIONS, random_reference(policy))
    assert "\n" not in str(refused.value)
    return str(refused.value)


class Noisy(nn.Module):
    """Gives something else each time."""

    def __init__(self):
        super().__init__()
        self.gain = weight(H)
        self.calls = 0

    def forward(self, x, again=None):
        self.calls += 1
        return x * self.gain * self.calls


def test_a_refusal_names_patterns_that_work():
    """A module that cannot be run again, nor any around it; then a second one."""
    policy = policy_with(Noisy)
    message = refusal(policy)
    assert "model.layers.0.mlp (Noisy)" in message
    pattern = re.search(r"parameters: \['(.*)'\]", message)[1]
    chosen = select_parameters(policy.model, [pattern])
    assert set(policy.parameters) - set(chosen) == {"model.layers.0.mlp.gain"}
    policy = dataclasses.replace(policy, parameters=chosen)
    score_block(policy, PROMPT, COMPLETIONS, random_reference(policy))


def test_a_second_refusal_keeps_the_first_one_out():
    policy = policy_with(Noisy)
    policy.model.model.norm = Noisy().requires_grad_(False)
    parameters = dict(policy.model.named_parameters())
    policy = dataclasses.replace(policy, parameters=parameters)
    for _ in range(2):
        pattern = re.search(r"parameters: \['(.*)'\]", refusal(policy))[1]
        chosen = select_parameters(policy.model, [pattern])
        policy = dataclasses.replace(policy, parameters=chosen)
    left_out = set(parameters) - set(chosen)
    assert left_out == {"model.layers.0.mlp.gain", "model.norm.gain"}


def test_a_refusal_of_chosen_parameters_adds_to_their_patterns():
    policy = policy_with(Noisy)
    patterns = ["mlp", "norm"]
    policy = dataclasses.replace(
        policy, parameters=select_parameters(policy.model, patterns)
    )
    before = re.search(r"begin each pattern of parameters with '(.*)'", refusal(policy))[1]
    chosen = select_parameters(policy.model, [before + pattern for pattern in patterns])
    assert set(policy.parameters) - set(chosen) == {"model.layers.0.mlp.gain"}


# Fused experts: E slices of R x C, S slots of T tokens, two each.
N, T, S, E, R, C = 4, 5, 10, 3, 6, 7


def normal(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def routed(generator, rows=S, columns=T):
    expert = torch.randint(0, E, (N, S), generator=generator)
    expert[0] = 1  # all of a completion to one
    left, right = normal(generator, N, rows, R), normal(generator, N, columns, C)
    return RoutedProducts(left, right, expert)


def formed(factor):
    """Form gradients by the definition, slot by slot."""
    whole = torch.zeros(N, E, R, C, dtype=torch.float64)
    if isinstance(factor, Dense):
        return factor.values
    for completion in range(N):
        for slot in range(S):
            expert = factor.expert_NS[completion, slot]
            row = factor.rows_NSR[completion, slot * factor.rows_NSR.shape[1] // S]
            column = factor.columns_NSC[completion, slot * factor.columns_NSC.shape[1] // S]
            whole[completion, expert] += torch.outer(row, column)
    return whole


@pytest.mark.parametrize(
    "uses",
    [
        (routed,),
        (lambda g: routed(g, T, S),),
        (routed, lambda g: routed(g, T, S)),
        (routed, lambda g: Dense(normal(g, N, E, R, C))),
    ],
    ids=["once", "other side", "twice", "with dense"],
)
def test_routed_products_equal_the_definition(uses):
    generator = torch.Generator().manual_seed(0)
    terms = [use(generator) for use in uses]
    reference = normal(generator, E, R, C)
    whole = sum(formed(term) for term in terms).flatten(1)
    reduced = reduce_factors(terms, reference)
    torch.testing.assert_close(reduced.gram_NN, whole @ whole.T)
    torch.testing.assert_close(reduced.products_N, whole @ reference.flatten())


def test_agreement_is_of_shape_and_size():
    one = torch.ones(3, dtype=torch.float64)
    assert replays.agree(one, one * (1 + 1e-6))
    assert not replays.agree(one, one * 1.01)
    assert not replays.agree(one, one[:2])
    assert not replays.agree(one * torch.nan, one)


def test_factors_of_routers_are_small():
    """Not a gradient for each completion, as its parameters would be."""
    policy = policy_with(Experts)
    seen = []
    plain = recorder.Recorder.meet

    def meet(self, name, factor):
        seen.append((name, type(factor)))
        plain(self, name, factor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder.Recorder, "meet", meet)
        assert_exact(policy)
    kinds = {name: kind for name, kind in seen if "mlp.router" in name}
    assert kinds == {
        "model.layers.0.mlp.router.weight": OuterProducts,
        "model.layers.0.mlp.router.bias": Dense,
    }
    embeddings = {kind for name, kind in seen if "embed_tokens" in name}
    assert embeddings == {RowSums}
