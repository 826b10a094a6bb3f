"""Operations: how many floating-point operations PyTorch carries out, counted as it does.

A multiply-add counts as two. What is counted are matrix products and attention, forward
and backward, at the shapes that were run: a pass that is run twice counts twice, padding
counts, and attention counts the whole square of its tokens whatever its mask leaves out.
Work element by element (norms, softmax, the copies around it) is not counted.

Reducing a block's scores has shapes of its own, and forms gradients or contracts tokens by
the size of the block; `reduction_operations` puts the very code to it, on tensors without
content.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from mse_lab.scores.factors import OuterProducts, RowSums
from mse_lab.scores.tied_parameters import reduce_factors

_aten = torch.ops.aten


def _products(out_val: Tensor, inner: int) -> int:
    return 2 * out_val.numel() * inner


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Scores q k' and their product with v; several heads of q may share one of k and v."""
    batch, heads, rows, width = query.shape
    return 2 * batch * heads * rows * key.shape[-2] * (width + value.shape[-1])


def _attention_backward(
    _: Tensor, query: Tensor, key: Tensor, value: Tensor, *__: Any, **___: Any
) -> int:
    """Scores once more, then the gradients of them, of v, of q and of k."""
    batch, heads, rows, width = query.shape
    products = 3 * width + 2 * value.shape[-1]
    return 2 * batch * heads * rows * key.shape[-2] * products


def _orthogonalise(matrix: Tensor, *_: Any, **__: Any) -> int:
    """Householder reflections of a tall matrix, and its basis made of them."""
    rows, columns = matrix.shape
    return 4 * rows * columns**2 - 4 * columns**3 // 3


_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)

# PyTorch's own formulas; what they leave out, or know on some devices only.
_FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    _aten.mv: lambda matrix, _, out_val: _products(out_val, matrix.shape[1]),
    _aten.dot: lambda left, _, out_val: _products(out_val, len(left)),
    _aten.linalg_qr: _orthogonalise,
    **{getattr(_aten, name): _attention for name in _ATTENTION},
    **{getattr(_aten, f"{name}_backward"): _attention_backward for name in _ATTENTION},
}
if hasattr(_aten, "_grouped_mm"):  # experts' products, in newer versions
    _FORMULAS[_aten._grouped_mm] = lambda left, *_, out_val, **__: _products(
        out_val, left.shape[-1]
    )


class Counter(TorchDispatchMode):
    """Counts while it is entered.

    Attributes:
        total: Operations so far.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carry an operator out, and count it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        formula = _FORMULAS.get(getattr(func, "overloadpacket", func))
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=result)
        return result


@contextmanager
def counting() -> Iterator[Counter]:
    """Count the operations of what runs inside the block, backward passes included.

    >>> with counting() as counter:
    ...     _ = torch.ones(2, 3) @ torch.ones(3, 5)
    >>> counter.total
    60
    """
    with Counter() as counter:
        yield counter


@dataclass(frozen=True)
class Shape:
    """Shape of a factor of some completions; what it holds is not kept."""

    kind: type[Any]  # Of which type the factor is.
    tokens: int  # Tokens of a completion that it sums over.
    rows: int  # Rows of the gradient; of row sums those that occur in the block.
    columns: int  # Columns of it, 1 where there are none.
    shared: int  # Of the tokens, those whose columns are the same for all completions.
    dtype: torch.dtype  # Precision.

    def outer(self, completions: int) -> OuterProducts:
        """Make outer products of this shape without content."""

        def empty(width: int) -> Tensor:
            shape = (completions, self.tokens, width)
            return torch.empty(shape, dtype=self.dtype, device="meta")

        return OuterProducts(empty(self.rows), empty(self.columns), self.shared)


def _row_sums_operations(shape: Shape, outer: Shape | None, count: int) -> int:
    """2 N^2 U C for the Gram matrix and 2 N U C for the products, U rows that occur.

    With outer products of the same matrix their U rows are formed and multiplied with, too.
    """
    entries = shape.rows * shape.columns
    cross = 0 if outer is None else count * outer.tokens + count**2
    return 2 * entries * (count**2 + count + cross)


@cache
def reduction_operations(shapes: tuple[Shape, ...], completions: int) -> int:
    """Count the operations of `reduce_factors` for a block of any size.

    Args:
        shapes: Of the factors of one parameter.
        completions: Completions of the block.

    >>> weight = Shape(OuterProducts, 6, 3, 5, 0, torch.float32)
    >>> reduction_operations((weight,), 8)  # formed: 2 x 15 x 8 x (6 + 8 + 1)
    3600
    """
    outers = [shape for shape in shapes if shape.kind is OuterProducts]
    sums = [shape for shape in shapes if shape.kind is RowSums]
    joined = outers[0] if outers else None
    total = sum(_row_sums_operations(one, joined, completions) for one in sums)
    if joined is not None:
        size = joined.rows, joined.columns
        reference = torch.empty(*size, dtype=joined.dtype, device="meta")
        uses = [one.outer(completions) for one in outers]
        with counting() as counter:
            reduce_factors(uses, reference)
        total += counter.total
    return total


def count(action: Callable[[], object]) -> int:
    """Count the operations of a piece of work."""
    with counting() as counter:
        action()
    return counter.total


def pass_operations(model: Any, tokens: int) -> int:
    """Count a forward and backward pass of one sequence of a model on the meta device.

    All tokens that are read have logits; the weights' own gradients are not formed.
    """
    inputs = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    hook = model.get_input_embeddings().register_forward_hook(
        lambda _, __, found: found.requires_grad_()
    )
    # Without a cache masks look at positions, which have no content here.
    counted = count(lambda: model(inputs, use_cache=True)[0].sum().backward())
    hook.remove()
    return counted


def forward_operations(model: Any, cached: int, tokens: int, *, logits: int) -> int:
    """Count a forward pass of one sequence after `cached` tokens, with some logits."""
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
