"""Linear maps with the prompt once: the plain map's results and gradients."""

import pytest
import torch
from torch import nn

from mse_lab.scores import shared_prompt
from mse_lab.scores.module_hooks import ModuleHooks
from mse_lab.scores.shared_prompt import prompt_once
from plain_scores import normal

N, S, T, C, R = 3, 4, 2, 5, 7
# Shapes of an input, and the rows that its matrix is multiplied with.
SHAPES = {
    "a block": ((N, S + T, C), S + N * T),
    "completions of one token": ((N, S, C), S),
    "one completion": ((1, S + T, C), S + T),
    "tokens of all in a row": ((N * (S + T), C), N * (S + T)),
    "logits of a few tokens": ((N, T, C), N * T),
}


@pytest.fixture
def multiplied(monkeypatch):
    """The rows that matrices are multiplied with, where the prompt is taken once."""
    monkeypatch.setattr(shared_prompt, "_saves", lambda *_: True)
    rows, linear = [], nn.functional.linear

    def counted(x, *rest):
        rows.append(x[..., 0].numel())
        return linear(x, *rest)

    monkeypatch.setattr(nn.functional, "linear", counted)
    return rows


def both(shape, *, alike=True, bias=True, replaying=False):
    """Give results and gradients of the plain map, and with the prompt once."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Linear(C, R, bias=bias, dtype=torch.float64).requires_grad_(False)
    x = normal(generator, *shape)
    if len(shape) == 3:
        x[:, :S] = x[0, :S].clone()
    if not alike:
        x[1, 0, 0] *= 1 + 2**-52
    x.requires_grad_()
    d = normal(generator, *shape[:-1], R)
    hooks = ModuleHooks(module, 1 if shape[0] == 1 else N, S)
    hooks.tokens, hooks.replaying = (S if shape[1] == S else S + T), replaying
    found = []
    for way in (None, hooks):
        if way is None:
            y = x @ module.weight.mT + (module.bias if bias else 0)
        else:
            with prompt_once(module, way):
                y = module(x)
        found.append((y.detach(), *torch.autograd.grad(y, x, d)))
    return found


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", SHAPES)
def test_results_and_gradients_of_every_row(multiplied, name, bias):
    shape, rows = SHAPES[name]
    plain, once = both(shape, bias=bias)
    torch.testing.assert_close(once, plain)
    assert sum(multiplied) == rows


@pytest.mark.parametrize("case", [{"alike": False}, {"replaying": True}], ids=str)
def test_all_rows_are_computed(multiplied, case):
    """Of prompts that differ in a digit, and of a module that a rule runs once more."""
    plain, once = both((N, S + T, C), **case)
    torch.testing.assert_close(once, plain)
    assert multiplied == [N * (S + T)]


@pytest.mark.parametrize(
    ("shape", "rows", "prompt", "saves"),
    [
        ((8, 50, 576), 576, 44, True),
        ((8, 50, 80), 240, 44, False),
        ((8, 50, 576), 576, 0, False),
        ((1, 50, 576), 576, 44, False),
    ],
)
def test_small_matrices_and_short_prompts_are_not_worth_it(shape, rows, prompt, saves):
    assert shared_prompt._saves(torch.zeros(shape), rows, prompt) == saves
