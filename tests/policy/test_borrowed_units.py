"""Units of a trainer's model are given back as they were; a group of one process here."""

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)

from mse_lab.errors import InputError
from mse_lab.policy.borrowed_units import borrowed_units, refuse_units
from mse_lab.run.processes import SINGLE_PROCESS

HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


@pytest.fixture(autouse=True)
def group():
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def whole():
    layers = [nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Linear(3, 1)]
    return nn.Sequential(*layers, nn.Linear(1, 1))


def sharded(offload=None):
    """A trainer's model of a layer, two modules in one unit, and the root's unit."""
    model = whole()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    options = {"mp_policy": HALF, "offload_policy": offload or OffloadPolicy()}
    for unit in (model[0], [model[2], model[3]]):
        fully_shard(unit, **options)
    return fully_shard(model, **options)


def gradients(model):
    """Let the trainer make a pass; give its gradients."""
    model(torch.ones(2, 3)).sum().backward()
    found = [each.grad.full_tensor().clone() for each in model.parameters()]
    model.zero_grad()
    return found


def kept(model):
    """All that torch keeps of the units, by name."""
    root = model._get_fsdp_state()
    states = root._state_ctx.all_states
    groups = [each._fsdp_param_group for each in states]
    parts = [part for each in groups for part in each.fsdp_params]
    for at, one in enumerate((root._state_ctx, root._comm_ctx, *states, *groups, *parts)):
        for name, value in vars(one).items():
            several = isinstance(value, list | tuple | set)
            yield f"{at} {name}", tuple(map(id, value)) if several else id(value)


def measure(model, *, fails):
    """Pass once forward and back, as a measurement does, without gradients of weights."""

    def fail(*_):
        raise RuntimeError("in the middle")

    with borrowed_units(model, None):
        parameters = list(model.parameters())
        assert all(hasattr(each, "full_tensor") for each in parameters)
        needed = [each.requires_grad for each in parameters]
        model.requires_grad_(False)
        handle = model[2].register_forward_hook(fail) if fails else None
        try:
            given = torch.ones(2, 3, requires_grad=True)
            result = model(given)
            result.sum().backward()
            assert hasattr(model[0].weight, "full_tensor")  # Freed after its last use.
            return result.detach(), given.grad
        except RuntimeError:
            return None
        finally:
            if handle:
                handle.remove()
            for each, was in zip(parameters, needed, strict=True):
                each.requires_grad_(was)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("before", ["nothing", "a step", "a pass without gradients"])
def test_the_training_goes_on_as_without_a_measurement(before, fails):
    model, other = sharded(), sharded()
    for each in (model, other):
        if before != "nothing":
            gradients(each)
        if before == "a pass without gradients":
            with torch.no_grad():
                each(torch.ones(2, 3))
    if before != "nothing":
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
        expected = dict(kept(model))
    measure(model, fails=fails)
    assert all(hasattr(each, "full_tensor") for each in model.parameters())
    if before != "nothing":
        assert dict(kept(model)) == expected
    assert all(map(torch.equal, gradients(model), gradients(other)))
    assert model._get_fsdp_state()._fsdp_param_group.post_forward_mesh_info is None
    assert model[0]._get_fsdp_state()._fsdp_param_group.post_forward_mesh_info is not None


def test_settings_of_the_backward_pass_are_set_aside():
    model = sharded()
    model.set_reshard_after_backward(False)
    model[0].set_unshard_in_backward(False)
    result, gradient = measure(model, fails=False)
    expected = measure(sharded(), fails=False)
    assert torch.equal(result, expected[0])
    assert torch.equal(gradient, expected[1])
    unit = model[0]._get_fsdp_state()._fsdp_param_group
    assert not unit.unshard_in_backward
    assert not unit.reshard_after_backward


def test_weights_are_measured_in_their_own_precision():
    model = sharded()
    same = whole()
    for each, weight in zip(same.parameters(), model.parameters(), strict=True):
        each.data = weight.full_tensor().detach().clone()
    given = torch.ones(2, 3, requires_grad=True)
    expected = same(given)
    expected.sum().backward()
    halves = model(torch.ones(2, 3))
    result, gradient = measure(model, fails=False)
    assert halves.dtype == torch.bfloat16
    assert torch.equal(result, expected)
    assert torch.equal(gradient, given.grad)


def float8(model):
    part = model[0]._get_fsdp_state()._fsdp_param_group.fsdp_params[0]
    part._sharded_local_tensor.fsdp_pre_all_gather = None


def tensor_parallel(model):
    model[2]._get_fsdp_state()._fsdp_param_group.fsdp_params[0].is_dtensor = True


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(float8, "in another form, such as float8"), (tensor_parallel, "tensor parallelism")],
)
def test_units_whose_gathers_are_others(spoil, words):
    model = sharded()
    refuse_units(model)
    spoil(model)
    with pytest.raises(InputError, match=f"FSDP2 with .*{words}: cannot be measured"):
        refuse_units(model)


def test_weights_elsewhere_or_in_groups_of_their_own(monkeypatch):
    with pytest.raises(InputError, match="FSDP2 with CPU offload: cannot be measured"):
        refuse_units(sharded(CPUOffloadPolicy(pin_memory=False)))
    ranks = iter([[0, 1], [0, 1], [0, 1, 2, 3]])
    monkeypatch.setattr(distributed, "get_process_group_ranks", lambda _: next(ranks))
    with pytest.raises(InputError, match="FSDP2 with units of different meshes"):
        refuse_units(sharded())


def test_outside_a_training_a_model_in_parts_is_refused():
    with pytest.raises(InputError, match="measured in its training, by MSECallback"):
        SINGLE_PROCESS.share(sharded())
