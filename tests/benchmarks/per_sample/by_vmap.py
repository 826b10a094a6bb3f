"""PyTorch's own way: `torch.func.vmap` of `grad`, scores stored, Gram by one product."""

import warnings

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from benchmarks.work import Work, sum_log_probs

# Gradients formed at a time are at most so many bytes, beside those that are stored.
CHUNK_BYTES = 2**29


PARAMETERS = None

# One float32 product over all D entries of stored scores loses digits: against float64,
# 1e-4 at 4M parameters and 3e-4 at 25M, where the other ways lose less than 2e-5.
TOLERANCE = 1e-3


def why_not() -> None:
    """Nothing is in the way: it is part of PyTorch."""


def scores(work: Work) -> Tensor:
    """Compute and store all scores, (N, D)."""
    width = work.tokens_NT.shape[1]
    frozen = {name: parameter.detach() for name, parameter in work.parameters.items()}

    def log_prob(
        parameters: dict[str, Tensor], inputs: Tensor, tokens: Tensor, length: Tensor
    ) -> Tensor:
        keywords = {"use_cache": False, "logits_to_keep": width}
        output = functional_call(work.model, parameters, (inputs[None],), keywords)
        return sum_log_probs(work.scaled(output.logits[0]), tokens, length)

    one_each = vmap(grad(log_prob), in_dims=(None, 0, 0, 0))
    inputs = work.inputs()
    stored = torch.empty(len(work), work.size, dtype=work.reference_D.dtype)
    step = max(1, CHUNK_BYTES // (4 * work.size))
    for start in range(0, len(work), step):
        part = slice(start, start + step)
        found = one_each(frozen, inputs[part], work.tokens_NT[part], work.lengths_N[part])
        torch.cat([found[name].flatten(1) for name in frozen], dim=1, out=stored[part])
    return stored


def gram(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Multiply the stored scores with one another and with the reference."""
    with warnings.catch_warnings():
        # Attention has no rule for batches of its own here; a plain one is no faster.
        warnings.filterwarnings("ignore", "There is a performance drop")
        stored_ND = scores(work)
    return (stored_ND @ stored_ND.T).numpy(), (stored_ND @ work.reference_D).numpy()
