"""A model that several processes hold together: FSDP2, whose units are gathered on demand.

torch's `fully_shard` takes for granted that all processes call the model equally often, and
in the same order: a unit's weights, those of a decoder layer, are gathered when all of them
arrive at it. Here each process has a prompt of its own, whose completions differ in number
and length. So before each gather the processes of a model vote: each says which unit it
needs, or none. The first unit that one of them needs is gathered; the others contribute
their part of it and vote again. Processes in like passes walk together and share each
gather, one that has nothing to do serves the others, and no pass is made for show.

Votes are numbered. Processes whose numbers differ are out of step, which is seen at once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.autograd import Variable
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from mse_lab.errors import InputError
from mse_lab.policy.location import Location
from mse_lab.probe.schema import Model

Watch = Callable[[], object]

# Is given a sharded model before its first pass, to make it a `SharedModel`.
Share = Callable[[Any], object]


# torch 2.13 has renamed it.
_all_gather = getattr(distributed, "all_gather_single", distributed.all_gather_into_tensor)


class OutOfStep(RuntimeError):
    """Processes that hold a model together do not do the same; an error of ours."""


def units_of(model: nn.Module) -> list[Any]:
    """List the groups of parameters that are gathered together; none of a whole model."""
    modules = [module for module in model.modules() if isinstance(module, FSDPModule)]
    groups = [module._get_fsdp_state()._fsdp_param_group for module in modules]
    # A unit of several modules, such as the embedding and the last norm, is listed once.
    return list({id(group): group for group in groups if group is not None}.values())


def parts_of(model: nn.Module) -> list[Any]:
    """List this process's parts of the parameters."""
    return [parameter for unit in units_of(model) for parameter in unit.fsdp_params]


def is_sharded(model: nn.Module) -> bool:
    """Whether this process holds a part of the model only."""
    return any(isinstance(module, FSDPModule) for module in model.modules())


def used_parameters(
    model: nn.Module, parameters: dict[str, nn.Parameter]
) -> Iterator[tuple[str, Tensor]]:
    """Name what autograd reaches: the parameters themselves, or gathered copies of them.

    A tied matrix may have a copy for each use.
    """
    if not is_sharded(model):
        yield from parameters.items()
        return
    for name, parameter in parameters.items():
        if not isinstance(parameter, DTensor):  # an adapter's
            yield name, parameter
    names = {id(parameter): name for name, parameter in parameters.items()}
    for part in parts_of(model):
        if id(part.sharded_param) in names:
            yield names[id(part.sharded_param)], part.unsharded_param


def class_of(module: nn.Module) -> type:
    """Give a module's class, before a unit was made of it."""
    return type(module).__bases__[-1] if isinstance(module, FSDPModule) else type(module)


def group_of(model: nn.Module) -> Any:
    """Give the group of the processes that hold a sharded model together."""
    return units_of(model)[0]._all_gather_process_group


def gathered(model: nn.Module) -> list[Tensor]:
    """List the gathered copies of parameters, whose memory is freed between uses."""
    return [part.unsharded_param for part in parts_of(model)]


def _unit_around(model: nn.Module, owner: str) -> FSDPModule | None:
    """Find the unit that a module is in; None in a model that is whole."""
    module = model.get_submodule(owner)
    while owner and not isinstance(module, FSDPModule):
        owner = owner.rpartition(".")[0]
        module = model.get_submodule(owner)
    return module if isinstance(module, FSDPModule) else None


def gather_around(model: nn.Module, owner: str) -> None:
    """Gather the unit that a module is in, as its rule needs it in the backward pass.

    A gradient may come to a unit's last module before it comes to the unit.
    """
    if unit := _unit_around(model, owner):
        unit.unshard()


def gather_to_the_end(model: nn.Module, owner: str) -> None:
    """Gather a unit of whose use in the backward pass torch knows nothing; then free it."""
    if unit := _unit_around(model, owner):
        unit.unshard()
        Variable._execution_engine.queue_callback(unit.reshard)


@contextmanager
def gathered_around(model: nn.Module, owner: str) -> Iterator[None]:
    """Hold the unit that a module is in together, outside a pass of the model.

    A unit that stays gathered has other parameters than those that the policy names.
    """
    unit = _unit_around(model, owner)
    if unit is not None:
        unit.unshard()
    try:
        yield
    finally:
        if unit is not None:
            unit.reshard()


def held_bytes(model: nn.Module) -> int:
    """Count the bytes of weights that this process holds at most at a time.

    Of a sharded model: its parts, the root's unit, and two more units, each twice while it
    is gathered.
    """
    units = [
        sum(part._sharded_param_data.nbytes for part in unit.fsdp_params)
        for unit in units_of(model)
    ]
    if not units:
        return sum(parameter.nbytes for parameter in model.parameters())
    return sum(units) + group_of(model).size() * (units[0] + 3 * max(units))


class SharedModel:
    """The part that this process has in a model, whose units are gathered by votes."""

    def __init__(self, model: nn.Module, peers: Any) -> None:
        # The peers exchange ballots and wait for gathers, as `run/model_peers.py` does.
        self._units, self._peers, self._turn = units_of(model), peers, 0
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_reshard_after_forward(True, recurse=False)
        for number, unit in enumerate(self._units, 1):
            unit._all_gather_comm = _Gather(self, number)
            unit._reduce_scatter_comm = _NoReduce()

    def _vote(self, needed: int, watch: Watch = lambda: None) -> int:
        """Vote for a unit; return the number of the one to gather, 0 if none is needed."""
        ballots = self._peers.exchange([self._turn, needed], watch)
        turns, units = zip(*ballots, strict=True)
        if len({*turns}) > 1:
            raise OutOfStep(f"votes of the processes that hold a model: {turns}")
        self._turn += 1
        return min((unit for unit in units if unit), default=0)

    def await_turn(self, needed: int) -> None:
        """Take part in the gathers of other units until it is the turn of this one."""
        while (unit := self._vote(needed)) != needed:
            self._contribute(unit)

    def serve(self, watch: Watch = lambda: None) -> None:
        """Contribute to what others need, until none needs anything."""
        while unit := self._vote(0, watch):
            self._contribute(unit)

    @torch.no_grad()
    def _contribute(self, number: int) -> None:
        """Give this process's part of a unit that another process needs."""
        unit = self._units[number - 1]
        parts = [part._sharded_param_data for part in unit.fsdp_params]
        if len({part.dtype for part in parts}) > 1:
            parts = [part.view(torch.uint8) for part in parts]
        mine = torch.cat(parts)
        group = unit._all_gather_process_group
        self.gather(mine.new_empty(len(mine) * group.size()), mine, group)

    def gather(self, output: Tensor, mine: Tensor, group: Any) -> None:
        """Gather all parts of a unit, flat and in the order of the processes."""
        work = _all_gather(output, mine, group=group, async_op=True)
        # A GPU goes on by itself; to wait for it here would leave it idle in between.
        work.wait() if output.is_cuda else self._peers.wait(work)


class _Allocated:
    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Make the buffer of a gather."""
        return torch.empty(*size, dtype=dtype, device=device)


class _Gather(_Allocated):
    """How `fully_shard` gathers one unit."""

    def __init__(self, shared: SharedModel, number: int) -> None:
        self._shared, self._number = shared, number

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        async_op: bool = False,
    ) -> None:
        self._shared.await_turn(self._number)
        self._shared.gather(output_tensor, input_tensor, group)


class _NoReduce(_Allocated):
    """Scores of different prompts may not be added up."""

    def __call__(self, *_: Any, **__: Any) -> None:
        raise OutOfStep("a gradient would be added to other processes' gradients")


def placement(location: Location, config: Model) -> dict[str, Any]:
    """Give the arguments by which `from_pretrained` reads this process's parts alone."""
    what, ranks = f"model.shard = {config.shard}", config.shard or 1
    count = distributed.get_world_size() if distributed.is_initialized() else 1
    if count % ranks or count == 1:
        raise InputError(
            f"{what}: processes: {count}; start a multiple of {ranks} of them: torchrun "
            f"--nproc-per-node {ranks} run_mse.py advise PROBE"
        )
    if config.device_map is not None:
        raise InputError(f"{what}: not beside model.device_map; leave one of them out")
    if location.gguf is not None:
        raise InputError(f"{what}: not of a GGUF file; give .safetensors")
    try:
        from transformers.distributed.configuration_utils import DistributedConfig

        settings = DistributedConfig(fsdp_size=ranks, dp_replicate_size=count // ranks)
    except (ImportError, TypeError):
        raise InputError(f"{what}: needs transformers 5.23 or newer") from None
    return {"distributed_config": settings}
