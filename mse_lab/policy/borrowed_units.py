"""Units of a trainer's model, which FSDP2 shards: borrowed for a measurement, and restored.

For that time they are gathered by votes (`sharding.py`), since each process measures
prompts of its own; the processes of the trainer all call the model alike.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy

from mse_lab.errors import InputError
from mse_lab.policy.sharding import SharedModel, parts_of, units_of


def refuse_units(model: nn.Module) -> None:
    """Refuse units of a trainer whose weights are not gathered as they are kept."""
    parts = parts_of(model)
    groups = {
        tuple(distributed.get_process_group_ranks(unit._all_gather_process_group))
        for unit in units_of(model)
    }
    refused = {
        "CPU offload": any(part.offload_to_cpu for part in parts),
        "tensor parallelism": any(part.is_dtensor for part in parts),
        "weights that are gathered in another form, such as float8": any(
            hasattr(part._sharded_local_tensor, "fsdp_pre_all_gather") for part in parts
        ),
        "units of different meshes": len(groups) > 1,
    }
    for name, found in refused.items():
        if found:
            raise InputError(
                f"FSDP2 with {name}: cannot be measured; save checkpoints, and measure "
                "them by mse-lab along"
            )


@contextmanager
def borrowed_units(model: nn.Module, peers: Any) -> Iterator[SharedModel]:
    """Gather the units of a trainer's model by votes inside the block.

    Weights are gathered in the precision in which they are kept. Afterwards all that torch
    keeps of the units is as it was, but that those which were gathered are no longer: the
    trainer's next pass gathers them, from the same weights.
    """
    root: Any = model
    root._get_fsdp_state()._lazy_init()  # It sets what is kept here, at the first pass.
    states = root._get_fsdp_state()._state_ctx.all_states
    units, parts = units_of(model), parts_of(model)
    for unit in units:
        unit._to_sharded()
    contexts = [states[0]._state_ctx, states[0]._comm_ctx]
    kept = [(each, dict(vars(each))) for each in (*contexts, *states, *units, *parts)]
    states[0]._comm_ctx.post_forward_order = []
    for state in states:
        state._mp_policy = MixedPrecisionPolicy()
    for unit in units:
        unit.mp_policy, unit._post_forward_indices = MixedPrecisionPolicy(), []
        unit._init_mp_dtypes()
        unit.reshard_after_backward = unit.unshard_in_backward = True
    for part in parts:
        # What was gathered for the trainer is in its precision, and may have gradients.
        vars(part).pop("_unsharded_param", None)
        part.all_gather_outputs, part.unsharded_accumulated_grad = [], None
    try:
        shared = SharedModel(model, peers)
        if hasattr(model, "peft_config"):
            # Its base is measured, whose passes do not gather what only the wrapper has.
            root.set_reshard_after_backward(False, recurse=False)
            root.unshard()
        yield shared
    finally:
        for unit in units:
            unit._to_sharded()
        for state in states:
            state._modules_to_run_forward.clear()  # Those of a pass that has failed.
        for each, values in kept:
            vars(each).clear()
            vars(each).update(values)
