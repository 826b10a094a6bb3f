"""What a run on Qwen2.5 of 0.5B, 1.5B and 7B needs: operations, memory, time.

    PYTHONPATH=tests python -m benchmarks.needs

Operations are counted by PyTorch's dispatcher on models of the full shape without content
(`benchmarks.operations`); Gram products by the very code that reduces scores. Memory is
measured on one trial completion through models of one and of two layers of the full width,
and continued to all layers. Times are computed from a stated speed: none was measured.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn

from benchmarks.markdown import table
from benchmarks.operations import Shape, counting, reduction_operations
from benchmarks.qwen import SHAPES, Shapes
from mse_lab.measurement.footprint import Footprint, measure_footprint
from mse_lab.measurement.memory import Memory
from mse_lab.scores.factors import OuterProducts, RowSums

GROUP = 64
# Of one GPU: memory that a run takes, and operations a second that it is assumed to
# sustain, a tenth of an H100's dense bfloat16 peak: drawing is bound by memory.
GPU_BYTES, SPEED = 0.85 * 80e9, 100e12
GPUS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Workload:
    """What a run does for each prompt."""

    name: str  # In words.
    prompts: int  # Prompts of the run.
    prompt: int  # Tokens of a prompt.
    completion: int  # Tokens of a completion.
    reference: int  # Completions of the reference.
    replicate: int  # Completions of the replicates.


# The precision in which they are measured.
DTYPES = {"0.5B": torch.float32, "1.5B": torch.bfloat16, "7B": torch.bfloat16}

# Lengths as in probes/qwen and probes/gsm8k, four demonstrations included.
WORKLOADS = (
    Workload("arithmetic", 60, 45, 8, 1024, 256),
    Workload("GSM8K", 100, 700, 200, 256, 128),
)


class Operations(NamedTuple):
    """Operations of one prompt, a multiply-add counted as two."""

    drawing: float  # Sampling of both pools, the prompt read once for each.
    reference: float  # The reference gradient, the prompt run through once for each half.
    passes: float  # Forward and backward passes of scoring.
    products: float  # Gram matrices.


def count(action: Callable[[], object]) -> int:
    """Count the operations of a piece of work."""
    with counting() as counter:
        action()
    return counter.total


def pass_operations(model: Any, cached: int, tokens: int, *, weights: bool) -> int:
    """Count a forward and backward pass of one sequence of a model on the meta device.

    The keys and values of `cached` tokens are there already; all `tokens` that are read
    have logits. `weights` says whether the weights' own gradients are formed.
    """
    inputs = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    cache = transformers.DynamicCache(config=model.config)
    if cached:
        before = torch.zeros(1, cached, dtype=torch.long, device="meta")
        with torch.no_grad():
            model(before, past_key_values=cache, use_cache=True, logits_to_keep=1)
    hook = model.get_input_embeddings().register_forward_hook(
        lambda _, __, found: found if found.requires_grad else found.requires_grad_()
    )
    model.requires_grad_(weights)

    def both() -> None:
        model(inputs, past_key_values=cache, use_cache=True)[0].sum().backward()

    counted = count(both)
    hook.remove()
    model.requires_grad_(False)
    model.zero_grad(set_to_none=True)
    return counted


def _scoring_operations(model: Any, prompt: int, completion: int) -> int:
    """Count a scoring pass of one completion: logits of its own tokens only."""
    read = prompt + completion - 1
    without = pass_operations(model.model, 0, read, weights=False)
    head = 2 * 2 * completion * model.config.hidden_size * model.config.vocab_size
    return without + head


def forward_operations(model: Any, cached: int, tokens: int, *, logits: int) -> int:
    inputs = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        if cached:
            before = torch.zeros(1, cached, dtype=torch.long, device="meta")
            model(before, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return count(
            lambda: model(
                inputs, past_key_values=cache, use_cache=True, logits_to_keep=logits
            )
        )


def _factor_shapes(model: Any, prompt: int, completion: int) -> Iterator[tuple[Shape, ...]]:
    """Give the shapes of each matrix's factors in a block."""
    read, dtype = prompt + completion - 1, torch.float32
    config = model.config
    for module in model.model.modules():
        if isinstance(module, nn.Linear):
            rows, columns = module.weight.shape
            yield (Shape(OuterProducts, read, rows, columns, prompt, dtype),)
    # Random completions occupy as many rows of the embedding as there are tokens.
    occurring = min(config.vocab_size, prompt + GROUP * (completion - 1))
    hidden = config.hidden_size
    head = Shape(OuterProducts, completion, config.vocab_size, hidden, 0, dtype)
    looked_up = Shape(RowSums, read, occurring, hidden, 0, dtype)
    yield from (
        [(head, looked_up)] if config.tie_word_embeddings else [(head,), (looked_up,)]
    )


def count_operations(shapes: Shapes, work: Workload) -> Operations:
    """Count the operations of one prompt, no two completions of which are alike."""
    model = shapes.build("meta", torch.float32)
    prompt, completion = work.prompt, work.completion
    pooled = work.reference + work.replicate
    read_prompt = forward_operations(model, 0, prompt - 1, logits=1)
    one = forward_operations(model, prompt - 1, completion, logits=completion)
    both_of_prompt = pass_operations(model.model, 0, prompt - 1, weights=True)
    both = pass_operations(model, prompt - 1, completion, weights=True)
    blocks = work.replicate / GROUP
    return Operations(
        drawing=2 * read_prompt + pooled * one,
        reference=2 * both_of_prompt + work.reference * both,
        passes=work.replicate * _scoring_operations(model, prompt, completion),
        products=blocks
        * sum(
            reduction_operations(each, GROUP)
            for each in _factor_shapes(model, prompt, completion)
        ),
    )


def _trial_footprint(shapes: Shapes, dtype: torch.dtype, work: Workload) -> Footprint:
    policy = shapes.policy("cpu", dtype)
    return measure_footprint(policy, [3] * work.prompt, work.completion)


def find_footprint(shapes: Shapes, dtype: torch.dtype, work: Workload) -> Footprint:
    """Measure one and two layers, continue to all."""
    one, two = (
        _trial_footprint(shapes._replace(layers=count), dtype, work) for count in (1, 2)
    )
    more = shapes.layers - 1
    growing = ("weights", "gradient", "kept", "inputs", "reference", "drawing")
    return replace(
        one,
        **{
            name: getattr(one, name) + more * (getattr(two, name) - getattr(one, name))
            for name in growing
        },
    )


def plan_gpus(footprint: Footprint, work: Workload) -> tuple[int, Memory]:
    """Find how many GPUs of 80 GB hold a run on one process."""
    batch = max(work.reference, work.replicate)
    for count in GPUS:
        memory = Memory(int(count * GPU_BYTES), footprint, GROUP, batch)
        if memory.fits and memory.scoring.current.block >= GROUP:
            return count, memory
    raise RuntimeError(f"{GPUS[-1]} GPUs do not hold it")


def digits(value: float) -> str:
    """Write two digits, or a whole number.

    >>> digits(0.0252), digits(3183.9)
    ('0.025', '3,184')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _row(name: str, work: Workload) -> list[object]:
    shapes, dtype = SHAPES[name], DTYPES[name]
    counted = count_operations(shapes, work)
    footprint = find_footprint(shapes, dtype, work)
    gpus, memory = plan_gpus(footprint, work)
    how = memory.scoring.current
    if how.layer is not None:  # one more forward pass of three
        counted = counted._replace(passes=counted.passes * 3 / 2)
    total = sum(counted) * work.prompts
    way = "whole" if how.layer is None else f"layers again, {how.layer} at a time"
    return [
        f"{name}, {str(dtype).removeprefix('torch.')}",
        work.name,
        *(digits(part / 1e12) for part in counted),
        f"{footprint.weights / 1e9:.1f} + 3 × {footprint.gradient / 1e9:.1f}",
        f"{footprint.kept / 1e9:.2g}",
        f"{gpus}: {way}{', sliced head' if how.sliced else ''}",
        digits(total / 1e15),
        digits(total / SPEED / 3600),
    ]


def report(models: Sequence[str]) -> str:
    """Tabulate what models need for each workload."""
    head = [
        "model",
        "workload",
        "draw, TFLOP",
        "reference",
        "scoring passes",
        "Gram products",
        "weights + vectors, GB",
        "activations a completion, GB",
        "80 GB GPUs in one process",
        "whole run, PFLOP",
        "GPU hours",
    ]
    rows = [_row(name, work) for name in models for work in WORKLOADS]
    notes = [
        f"{work.name}: {work.prompts} prompts of {work.prompt} tokens, "
        f"{work.reference:,} + {work.replicate} completions of {work.completion} each."
        for work in WORKLOADS
    ]
    notes.append(
        "TFLOP for one prompt, counted at the full shape; memory of a completion measured "
        "on one and two layers and continued to all; the rest computed, the hours at "
        f"{SPEED / 1e12:.0f} TFLOP/s. Completions that are alike take less."
    )
    return "\n".join([table(head, rows), "", *notes])


if __name__ == "__main__":
    print(report(list(SHAPES)))
