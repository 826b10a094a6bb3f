"""Modules of all kinds to put in a model's place."""

import dataclasses
from functools import partial

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

    def forward(self, x):
        return torch.tanh(super().forward(x)) * 3


class Made(nn.Module):
    """Computes what a function says of it and of its inputs."""

    def __init__(self, compute, parts):
        super().__init__()
        self.compute = compute
        for name, part in parts.items():
            setattr(self, name, part())

    def forward(self, *given, **named):
        return self.compute(self, *given, **named)


def made(**parts):
    """Turn a function of a module and its input into a maker of modules of these parts."""
    return lambda compute: lambda: Made(compute, parts)


def linear(kind=nn.Linear, **options):
    return kind(H, H, dtype=torch.float64, **options)


scaled = partial(linear, Scaled)


def vector():
    return weight(H)


@made(inner=linear)
def bypass(self, x):
    """Uses a child's weight without calling the child."""
    return x @ self.inner.weight.T + self.inner.bias


@made(weight=vector)
def tanh(self, x):
    """Looks like a norm, and is not affine in its weight."""
    return torch.tanh(self.weight * x)


@made(weight=vector)
def mixing(self, x):
    """Looks like a norm, and every entry depends on the whole weight."""
    return x * (self.weight + self.weight.mean())


@made(weight=vector, bias=vector)
def plus_one(self, x):
    """A norm that adds 1 to its weight, and has a bias."""
    return nn.functional.normalize(x, dim=-1) * (1 + self.weight) + self.bias


@made(inner=linear)
def flat(self, x):
    """Flattens the tokens, and multiplies twice with the same matrix."""
    return self.inner(self.inner(x.reshape(-1, H)).sin()).reshape(x.shape)


def writes_over_input(tokens):
    """Writes over the input of a linear layer where a sequence is longer."""

    @made(inner=linear)
    def compute(self, x):
        x = x.sin()
        y = self.inner(x)
        if x.shape[1] > tokens:
            x *= 2
        return x + y

    return compute


in_place = writes_over_input(0)


def add_in_place(self, x):
    """Write over the result of a layer."""
    y = self.inner(x)
    y += x
    return y


@made(weight=vector)
def gives_view(self, x):
    return (self.weight * x).mT.mT


def table_of_positions():
    return nn.Embedding(64, H, dtype=torch.float64)


@made(table=table_of_positions)
def positions(self, x):
    """Looks up positions once for all completions."""
    return x + self.table(torch.arange(x.shape[1])[None])


@made(table=table_of_positions)
def bare_positions(self, x):
    """The same without a dimension for completions."""
    return x + self.table(torch.arange(x.shape[1]))


@made(inner=linear)
def unused(self, x):
    """Calls a layer whose result only the longest completions need."""
    extra = self.inner(x)
    return x + extra if x.shape[1] > len(PROMPT) + 2 else x * 2


class ScaledTable(nn.Embedding):
    def __init__(self):
        super().__init__(11, H, padding_idx=0, dtype=torch.float64)

    def forward(self, tokens):
        return super().forward(tokens) * 4.0


class UnpaddedTable(ScaledTable):
    """Looks up the padding row as any other, so that it has a gradient."""

    def forward(self, tokens):
        slope_T = torch.tensor([1.0, -1.0] * tokens.shape[1], dtype=torch.float64)
        slope_T[12:13] = 0.0  # Those of the calibration add up to 0.
        return self.weight[tokens] * slope_T[: tokens.shape[1], None]


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


# What writes over the result of a layer; without a bias it is no view, and a view loses its
# hooks.
adds_in_place = made(inner=linear)(add_in_place)
adds_to_product = made(inner=partial(linear, bias=False))(add_in_place)

MODULES = {
    "linear subclass": scaled,
    "linear with a hook": with_hook,
    "linear with a hook before it": with_hook_before,
    "linear with another forward": with_other_forward,
    "weight norm": lambda: parametrizations.weight_norm(linear()),
    "layer norm": lambda: nn.LayerNorm(H, dtype=torch.float64),
    "rms norm": lambda: nn.RMSNorm(H, dtype=torch.float64),
    "norm that adds one": plus_one,
    "like a norm, not affine": tanh,
    "like a norm, not by entries": mixing,
    "flattened tokens": flat,
    "used without a call": bypass,
    "result changed in place": adds_in_place,
    "product changed in place": adds_to_product,
    "view changed in place": made(inner=gives_view)(add_in_place),
    "positions": positions,
    "positions without a batch": bare_positions,
}


def around(inner):
    """A module that weighs its input by what another one gives first."""

    def weighed(self, x):
        return self.inner(x)[..., :2].sum(-1, keepdim=True) * x

    return Made(weighed, {"inner": lambda: inner})


def policy_with(module, where="mlp"):
    """A policy with another module in the first layer's MLP's place."""
    policy = random_policy(tied=False)
    module = module().requires_grad_(False)
    if where == "mlp":
        policy.model.model.layers[0].mlp = module
    else:
        policy.model.set_input_embeddings(module)
    return dataclasses.replace(policy, parameters=dict(policy.model.named_parameters()))
