"""Calls: whose rows are whose, and what can be run again for one completion."""

from collections import namedtuple

import pytest
import torch
from torch import nn

from mse_lab.scores.module_calls import Batch, Call, replaced_forward, tensors_in

BATCH = Batch(rows=3, tokens=4)
Pair = namedtuple("Pair", "left right")


def test_tensors_are_met_at_any_depth():
    one, two, three = (torch.full((1,), float(number)) for number in (1, 2, 3))
    nested = {"a": [one, "text"], "b": Pair(two, (None, three))}
    assert [float(tensor) for tensor in tensors_in(nested)] == [1, 2, 3]


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
