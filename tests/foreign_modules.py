"""Modules of all kinds to put in a model's place."""

import dataclasses

import torch
from torch import nn
from torch.nn.utils import parametrizations

from models import random_policy
from plain_scores import PROMPT

H = 16


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


class WithLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(H, H, dtype=torch.float64)


class Bypass(WithLayer):
    """Uses a child's weight without calling the child."""

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


class Flat(WithLayer):
    """Flattens the tokens, and multiplies twice with the same matrix."""

    def forward(self, x):
        return self.inner(self.inner(x.reshape(-1, H)).sin()).reshape(x.shape)


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


class InPlace(WithLayer):
    """Writes over the input of a linear layer."""

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


class AddsToProduct(AddsInPlace):
    """The same without a bias: the result is no view."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(H, H, bias=False, dtype=torch.float64)


class GivesView(Tanh):
    def forward(self, x):
        return (self.weight * x).mT.mT


class AddsToView(AddsInPlace):
    """Writes over a view, which loses its hooks."""

    def __init__(self):
        super().__init__()
        self.inner = GivesView()


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


class Unused(WithLayer):
    """Calls a layer whose result only the longest completions need."""

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
    "product changed in place": AddsToProduct,
    "view changed in place": AddsToView,
    "positions": Positions,
    "positions without a batch": BarePositions,
}


class Around(nn.Module):
    """Weighs its input by what a module gives first."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        found = self.inner(x)
        first = found if isinstance(found, torch.Tensor) else found[0]
        return first[..., :2].sum(-1, keepdim=True) * x


def policy_with(module, where="mlp"):
    """A policy with another module in the first layer's MLP's place."""
    policy = random_policy(tied=False)
    module = module().requires_grad_(False)
    if where == "mlp":
        policy.model.model.layers[0].mlp = module
    else:
        policy.model.set_input_embeddings(module)
    return dataclasses.replace(policy, parameters=dict(policy.model.named_parameters()))
