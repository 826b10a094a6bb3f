"""What an advice costs on Qwen2.5 of 0.5B, 7B and 72B: completions, PFLOP, hours on H100s.

    PYTHONPATH=tests python -m benchmarks.advice_costs

By arithmetic: operations are counted on models of the full shape without content, hours are
computed from two stated speeds. Nothing here was run at these sizes.

An advice draws N completions of a prompt, and passes through the model forward and backward
once for each; it needs no reference gradient. Three things cost operations:

- drawing: each token forward once;
- the pass: prompt and completion forward, and backward as far as the parameters that count
  reach; gradients of weights are not formed in it;
- the products: the Gram matrix of the N scores and their weighted sum, from the factors of
  each layer.

Drawing is bound by memory: a step reads all weights, for all completions that are drawn at
once. Here these are a prompt's own; an engine that draws all prompts at once is bound by
arithmetic, which is the other column.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn

from benchmarks.operations import (
    Shape,
    count,
    forward_operations,
    pass_operations,
    reduction_operations,
)
from benchmarks.tables import table
from mse_lab.scores.factors import OuterProducts, RowSums


class Shapes(NamedTuple):
    """A Qwen2 as its config.json has it."""

    hidden: int
    inner: int
    layers: int
    heads: int
    keys: int
    vocabulary: int
    tied: bool

    def build(self, device: str, dtype: torch.dtype) -> Any:
        """Build it, its weights whatever they are."""
        config = transformers.Qwen2Config(
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.keys,
            vocab_size=self.vocabulary,
            tie_word_embeddings=self.tied,
        )
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
        return model.eval().requires_grad_(False)


MODELS = {
    "0.5B": Shapes(896, 4864, 24, 14, 2, 151_936, True),
    "7B": Shapes(3584, 18944, 28, 28, 4, 152_064, False),
    "72B": Shapes(8192, 29_568, 80, 64, 8, 152_064, False),
}
LENGTHS = (200, 2_000, 8_000)
PROMPT = 200

# Completions of a prompt and prompts, as a typical advice takes them.
COMPLETIONS, PROMPTS = 16, 36

# Rank of the adapters, on every matrix of every layer; layers that count where only the
# last do.
RANK, LAST = 16, 2

WAYS = ("all", f"LoRA, rank {RANK}", f"last {LAST} layers")

# From so many tokens on the layers' activations are not kept but computed again.
RECOMPUTED = 2_000

# Operations a second that a GPU is assumed to sustain, a tenth of an H100's dense bfloat16
# peak, and bytes a second that it reads: none was measured.
SPEED = 100e12
BANDWIDTH, WEIGHT_BYTES, GPU_BYTES = 3.35e12, 2, 80e9


class Costs(NamedTuple):
    """Operations of one prompt, and bytes of all weights."""

    drawing: float
    passes: float
    products: float
    weights: float


def _matrices(model: Any) -> Iterator[tuple[int, int]]:
    for module in model.model.modules():
        if isinstance(module, nn.Linear):
            rows, columns = module.weight.shape
            yield rows, columns


def _outer(tokens: int, rows: int, columns: int, shared: int) -> tuple[Shape, ...]:
    return (Shape(OuterProducts, tokens, rows, columns, shared, torch.float32),)


def _factors(model: Any, length: int, way: str) -> Iterator[tuple[Shape, ...]]:
    """Give the shapes of the factors of each matrix that counts."""
    read, shared = PROMPT + length - 1, PROMPT
    matrices = list(_matrices(model))
    if way.startswith("last"):
        matrices = matrices[-LAST * len(matrices) // model.config.num_hidden_layers :]
    for rows, columns in matrices:
        if way.startswith("LoRA"):
            yield _outer(read, RANK, columns, shared)
            yield _outer(read, rows, RANK, shared)
        else:
            yield _outer(read, rows, columns, shared)
    if way == "all":
        hidden, vocabulary = model.config.hidden_size, model.config.vocab_size
        occurring = min(vocabulary, PROMPT + COMPLETIONS * length)
        head = _outer(length, vocabulary, hidden, 0)
        looked_up = (Shape(RowSums, read, occurring, hidden, 0, torch.float32),)
        yield from (
            [head + looked_up] if model.config.tie_word_embeddings else [head, looked_up]
        )


def _scoring_pass(shapes: Shapes, length: int, way: str) -> float:
    """Count a completion's forward pass, and its backward pass as far as it is needed."""
    model, read = shapes.build("meta", torch.float32), PROMPT + length - 1
    head = 2 * length * shapes.hidden * shapes.vocabulary
    if not way.startswith("last"):
        both = pass_operations(model.model, read)
        return both * (1.5 if length >= RECOMPUTED else 1) + 2 * head
    inputs = torch.zeros(1, read, dtype=torch.long, device="meta")
    with torch.no_grad():
        forward = count(lambda: model.model(inputs))
        few = shapes._replace(layers=LAST).build("meta", torch.float32)
        again = count(lambda: few.model(inputs))
    both = pass_operations(few.model, read)
    return forward + both - again + 2 * head


def count_costs(shapes: Shapes, length: int, way: str) -> Costs:
    """Count what one prompt costs, no two completions of which are alike."""
    model = shapes.build("meta", torch.float32)
    draw = forward_operations(model, PROMPT, length, logits=length)
    products = sum(
        reduction_operations(each, COMPLETIONS) for each in _factors(model, length, way)
    )
    weights = sum(parameter.numel() for parameter in model.parameters())
    return Costs(
        drawing=forward_operations(model, 0, PROMPT, logits=1) + COMPLETIONS * draw,
        passes=COMPLETIONS * _scoring_pass(shapes, length, way),
        products=products,
        weights=WEIGHT_BYTES * weights,
    )


def digits(value: float) -> str:
    """Write two digits, or a whole number.

    >>> digits(0.0252), digits(3183.9)
    ('0.025', '3,184')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _time(hours: float) -> str:
    """Write hours in the unit that suits them.

    >>> _time(0.002), _time(0.03), _time(2.44)
    ('7.2 s', '1.8 min', '2.4 h')
    """
    if hours < 1 / 60:
        return f"{digits(3600 * hours)} s"
    return f"{60 * hours:.2g} min" if hours < 1 else f"{digits(hours)} h"


def _row(name: str, length: int, way: str) -> list[object]:
    costs = count_costs(MODELS[name], length, way)
    work = PROMPTS * (costs.passes + costs.products) / SPEED / 3600
    steps = PROMPTS * length * costs.weights / BANDWIDTH / 3600
    together = PROMPTS * costs.drawing / SPEED / 3600
    operations = PROMPTS * (costs.drawing + costs.passes + costs.products)
    fits = costs.weights < 0.85 * GPU_BYTES
    hours = [work + together, work + max(steps, together)]
    return [
        f"{name}, {way}",
        f"{length:,}",
        digits(operations / 1e15),
        *(_time(each) if fits else "too large" for each in hours),
        *(_time(each / 8 if fits else each) for each in hours),
    ]


def report(models: Sequence[str] = tuple(MODELS)) -> str:
    """Tabulate what an advice costs."""
    head = [
        "model, parameters that count",
        "tokens of a completion",
        "PFLOP",
        "one H100, drawn by an engine",
        "drawn here",
        "on 8, drawn by an engine",
        "drawn here",
    ]
    rows = [_row(name, each, way) for name in models for way in WAYS for each in LENGTHS]
    return "\n".join(
        [
            table(head, rows),
            "",
            f"{PROMPTS} prompts of {PROMPT} tokens, {COMPLETIONS} completions of each, "
            f"{PROMPTS * COMPLETIONS} in all; in proportion for others. By arithmetic: "
            f"{SPEED / 1e12:.0f} TFLOP/s of work, {BANDWIDTH / 1e12} TB/s of weights read "
            "at each step of a prompt drawn alone. A model that one GPU does not hold is "
            "spread over the 8, layer after layer, which are then no faster than one.",
        ]
    )


if __name__ == "__main__":
    print(report())
