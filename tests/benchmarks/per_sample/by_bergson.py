"""bergson: gradients of the linear layers inside the decoder, collected by hooks.

It covers `nn.Linear` and `Conv1D`, biases included, and neither embeddings nor norms, so
it is compared over the linear layers alone; see `PARAMETERS`. It is installed without its
requirements: torchvision and torchaudio, which it does not import, exist for CUDA only.
"""

import contextlib
import importlib.util
import io
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.work import Work

# The linear layers of Qwen2's decoder.
PARAMETERS = ["_proj[.]"]

MODULES = (
    "bergson",
    "datasets",
    "jaxtyping",
    "ml_dtypes",
    "natsort",
    "peft",
    "petname",
    "simple_parsing",
    "torchopt",
)


def why_not() -> str | None:
    """Say what of it is not installed."""
    absent = [name for name in MODULES if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed; make bench installs it" if absent else None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep its lists of modules and its progress bars off the screen."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def _documents(work: Work) -> dict[str, list[list[int]]]:
    """List each completion after the prompt, and the same with the prompt masked."""
    completions = [
        tokens[:length].tolist()
        for tokens, length in zip(work.tokens_NT, work.lengths_N, strict=True)
    ]
    masked = [-100] * len(work.prompt)
    return {
        "input_ids": [work.prompt + tokens for tokens in completions],
        "labels": [masked + tokens for tokens in completions],
    }


def _collect(work: Work, folder: str) -> dict[str, Any]:
    """Run its collector on the block as one batch: module -> gradients (N, rows x columns).

    The bias, where there is one, is the last column.
    """
    from bergson import CollectorComputer, GradientProcessor, IndexConfig, InMemoryCollector
    from datasets import Dataset

    data = Dataset.from_dict(_documents(work))
    settings = IndexConfig(run_path=folder, include_bias=True, loss_reduction="sum")
    settings.partial_run_path.mkdir()
    collector = InMemoryCollector(
        model=work.model.base_model,
        cfg=settings,
        processor=GradientProcessor(include_bias=True),
        data=data,
    )
    batches = [list(range(len(work)))]
    CollectorComputer(
        work.model, data, collector=collector, batches=batches, cfg=settings
    ).run_with_collector_hooks()
    return collector.gradients


def _reference(work: Work, module: str) -> Tensor:
    """Lay out the reference as the module's gradients are."""
    weight = work.reference[f"model.{module}.weight"]
    bias = work.reference.get(f"model.{module}.bias")
    return (weight if bias is None else torch.cat([weight, bias[:, None]], 1)).flatten()


def gram(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Collect the gradients of the linear layers in memory, and multiply them."""
    # It only needs the backward pass to reach the layers, so that is all it is given.
    embeddings = work.model.get_input_embeddings().requires_grad_(True)
    with tempfile.TemporaryDirectory() as folder, _quietly():
        gradients = _collect(work, str(Path(folder) / "run"))
    embeddings.requires_grad_(False)
    embeddings.weight.grad = None
    gram_NN, products_N = torch.zeros(len(work), len(work)), torch.zeros(len(work))
    for module, flat_ND in gradients.items():
        gram_NN += flat_ND @ flat_ND.T
        # Its loss is minus the log-probability.
        products_N -= flat_ND @ _reference(work, module)
    return gram_NN.numpy(), products_N.numpy()
