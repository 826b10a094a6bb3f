"""Opacus: `GradSampleModule` keeps every sample's gradient of every parameter.

Linear layers, LayerNorm and embeddings have rules of their own, tied matrices are summed,
and any other module with parameters goes through `torch.func`: Qwen2's RMSNorm, GPT-2's
Conv1D. What is computed once for the whole batch, such as GPT-2's position embeddings, has
one gradient for all samples, without a word; the models here have no such module.
"""

import importlib.util
import warnings

import numpy as np
import torch

from benchmarks.work import Work

PARAMETERS = None


def why_not() -> str | None:
    """Say whether it is installed."""
    if importlib.util.find_spec("opacus") is None:
        return "not installed; pip install -e '.[bench]'"
    return None


def gram(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Multiply the samples' gradients parameter by parameter, without joining them."""
    from opacus import GradSampleModule

    gram_NN, products_N = torch.zeros(len(work), len(work)), torch.zeros(len(work))
    with work.differentiable():
        # Its hooks work in training mode only; the models have no dropout.
        wrapped = GradSampleModule(work.model.train(), loss_reduction="sum", strict=False)
        with warnings.catch_warnings():
            # Of the embedding, whose input is no tensor that could need a gradient.
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            work.log_probs().sum().backward()
        for name, parameter in work.parameters.items():
            flat_ND = parameter.grad_sample.flatten(1)
            gram_NN += flat_ND @ flat_ND.T
            products_N += flat_ND @ work.reference[name].flatten()
        wrapped.to_standard_module()
        work.model.eval()
    return gram_NN.numpy(), products_N.numpy()
