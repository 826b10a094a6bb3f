"""Bytes of the tensors that live at once, counted operation by operation."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """The most bytes that tensors made inside the block hold at once, exactly.

    What a kernel uses for itself while it runs is not seen.
    """

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._live = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        made = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        # A view or an operation in place makes nothing.
        given = {
            leaf.untyped_storage().data_ptr()
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        }
        self._live = {ref: size for ref, size in self._live.items() if not ref.expired()}
        for tensor in made:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in given:
                self._live[StorageWeakRef(storage)] = storage.nbytes()
        self.peak = max(self.peak, sum(self._live.values()))
        return output
