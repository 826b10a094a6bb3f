"""Linear maps of a prompt's tokens, computed once for all completions of a block.

In a causal model the prompt's tokens have the same hidden states in every row, so that of
N rows of S + T tokens a matrix is multiplied with S + N T. The gradients that come back
differ by completion, and each row gets its own: results and gradients are those of the
plain pass. Rows are compared first; where they differ in a digit, all are computed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mse_lab.scores.module_hooks import ModuleHooks, replaced_forward
from mse_lab.scores.outer_products import ELEMENTWISE_COST


class _Linear(torch.autograd.Function):
    """x_NTC -> x A' + a for a constant A, the first `shared` tokens from the first row."""

    @staticmethod
    def forward(ctx: Any, x_NTC: Tensor, module: nn.Linear, shared: int) -> Tensor:
        ctx.module = module
        # One product, of the prompt's tokens and all others: the matrix is read once.
        after = x_NTC[:, shared:]
        tokens = torch.cat([x_NTC[0, :shared], after.flatten(0, 1)])
        result = nn.functional.linear(tokens, module.weight, module.bias)
        of_prompt, of_after = result[:shared], result[shared:].unflatten(0, after.shape[:2])
        return torch.cat([of_prompt.expand(len(after), -1, -1), of_after], 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0] @ ctx.module.weight, None, None


_linear: Callable[..., Tensor] = _Linear.apply


def _saves(x_NTC: Tensor, rows: int, shared: int) -> bool:
    """Whether fewer products outweigh comparing the rows, and copying the results."""
    (count, tokens, columns) = x_NTC.shape
    products = (count - 1) * shared * rows * columns
    return products > ELEMENTWISE_COST * count * (shared * columns + tokens * rows)


def _are_alike(x_NTC: Tensor, shared: int) -> bool:
    prompt = x_NTC[:, :shared]
    return torch.equal(prompt[1:], prompt[:1].expand(len(x_NTC) - 1, -1, -1))


@contextmanager
def prompt_once(model: nn.Module, hooks: ModuleHooks) -> Iterator[None]:
    """Let linear maps of a hooked pass compute the prompt's tokens once, inside the block.

    Not those of a module that a rule runs once more: its parameters are differentiated.
    """

    def forward(module: nn.Linear, whole: Callable[..., Any], input: Tensor) -> Any:
        shared = hooks.shared
        if (
            not hooks.replaying
            and input.shape[:-1] == (hooks.rows, hooks.tokens)
            and _saves(input, module.out_features, shared)
            and _are_alike(input, shared)
        ):
            return _linear(input, module, shared)
        return whole(input)

    with ExitStack() as stack:
        for module in model.modules():
            # Not one that another library's forward moves between devices.
            if type(module) is nn.Linear and "forward" not in vars(module):
                shared_forward = partial(forward, module, module.forward)
                stack.enter_context(replaced_forward(module, shared_forward))
        yield
