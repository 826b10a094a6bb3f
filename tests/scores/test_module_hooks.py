"""Hooks: the gradient that a result has, whatever the model does to it afterwards."""

import pytest
import torch
from torch import nn

from foreign_modules import InPlace
from foreign_policies import COMPLETIONS, policy_with
from mse_lab.scores.module_hooks import ModuleHooks
from mse_lab.scores.score_block import score_block
from plain_scores import PROMPT, random_reference


def test_an_input_changed_in_place_is_no_silent_error():
    """Autograd's own error, as where the parameters are trained."""
    policy = policy_with(InPlace)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        score_block(policy, PROMPT, COMPLETIONS, random_reference(policy))


class Meets(ModuleHooks):
    """Notes calls and gradients."""

    def __init__(self, model, rows):
        super().__init__(model, rows, shared=0)
        self.met = []

    def meet_call(self, call):
        self.met.append(call.owner)
        return True

    def meet_gradients(self, call, gradients):
        self.met.append((call.owner, [tensor.clone() for tensor in gradients]))
        call.run(call.values())  # once more, which is none of the pass


def test_calls_are_met_on_the_way_forward_and_gradients_on_the_way_back():
    first, second = nn.Linear(3, 3), nn.Linear(3, 1)
    model = nn.Sequential(first, second).requires_grad_(False)
    hooks = Meets(model, rows=2)
    with hooks.hooked({"0": {}, "1": {}}):
        model(torch.ones(2, 4, 3)).sum().backward()
    assert hooks.met[:2] == ["0", "1"]
    (_, [last]), (_, [before]) = hooks.met[2:]
    torch.testing.assert_close(last, torch.ones(2, 4, 1))
    torch.testing.assert_close(before, second.weight.detach().expand(2, 4, 3))
    model(torch.ones(2, 4, 3))
    assert len(hooks.met) == 4  # the hooks are gone
