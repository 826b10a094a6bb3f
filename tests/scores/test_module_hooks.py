"""Hooks: the gradient that a result has, whatever the model does to it afterwards."""

from collections import namedtuple

import pytest
import torch
from torch import nn
from transformers.utils import ModelOutput

from foreign_modules import InPlace
from foreign_policies import COMPLETIONS, policy_with
from mse_lab.scores.module_hooks import (
    Batch,
    Call,
    ModuleHooks,
    map_tensors,
    replaced_forward,
    tensors_in,
)
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


BATCH = Batch(rows=3, tokens=4)
Pair = namedtuple("Pair", "left right")


def test_tensors_are_met_at_any_depth():
    one, two, three = (torch.full((1,), float(number)) for number in (1, 2, 3))
    output = ModelOutput(logits=three)
    nested = {"a": [one, "text"], "b": Pair(two, (None, output))}
    assert [float(tensor) for tensor in tensors_in(nested)] == [1, 2, 3]
    doubled = map_tensors(lambda tensor: 2 * tensor, nested)
    assert doubled == {"a": [2.0, "text"], "b": Pair(4.0, (None, {"logits": 6.0}))}
    assert type(doubled["b"].right[1]) is ModelOutput
    assert output.logits is three


@pytest.mark.parametrize(
    ("shape", "split"),
    [((3, 4, 5), (3, 4, 5)), ((12, 5), (3, 4, 5)), ((4, 5), None), ((1, 4, 5), None)],
    ids=["completions first", "tokens flattened", "other rows", "one for all"],
)
def test_rows_are_completions(shape, split):
    tensor = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    found = BATCH.split(tensor)
    assert (found if found is None else tuple(found.shape)) == split
    part = BATCH.part(tensor, 1)
    expected = tensor if found is None else found[1]
    assert torch.equal(part.reshape(expected.shape), expected)


def call_of(x):
    module = nn.Linear(5, 2)
    own = {"weight": "weight", "bias": "bias"}
    return Call("", module, own, (x,), {}, [module(x)], BATCH)


def test_a_call_is_run_again_for_one():
    call = call_of(torch.randn(12, 5))
    assert (call.attributed, call.common) == (True, False)
    [found] = call.run(call.values(), 2)
    torch.testing.assert_close(found.detach(), call.results[0][8:12])


def test_what_is_called_once_for_all_is_common():
    assert call_of(torch.randn(1, 4, 5)).common
    assert not call_of(torch.randn(7, 5)).attributed


def test_an_input_written_over_is_seen():
    x = torch.randn(3, 4, 5)
    call = call_of(x)
    assert not call.changed
    x += 1
    assert call.changed


def test_a_replaced_forward_is_put_back():
    module = nn.Identity()
    with replaced_forward(module, lambda x: x + 1):
        assert module(1) == 2
    assert module(1) == 1
    assert "forward" not in vars(module)
