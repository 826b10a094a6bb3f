"""A model of which this process holds a part."""

import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard


def a_part(model=None):
    """Shard a model by FSDP2, for a group of this process alone."""
    model = torch.nn.Linear(2, 2) if model is None else model
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    try:
        return fully_shard(model)
    finally:
        distributed.destroy_process_group()
