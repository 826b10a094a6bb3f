"""Scores: completions -> Gram matrix, products with the reference, score norms.

The score of completion i is W_i = grad log pi(Y_i | x) in all parameters that count, its
log-probability summed over its own tokens, end token included. One forward and backward
pass over a block of completions yields every W_i in factored form (`factors.py`), layer
by layer; each parameter's factors are reduced to inner products and dropped as soon as
the backward pass has met all uses of the parameter. No score is ever stored, and the
parameters' own gradients are never accumulated.

Torch ends here: what leaves this file is NumPy.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mse_lab.completions import Completions
from mse_lab.config import InputError
from mse_lab.factors import Dense, Factor, OuterProducts, RowSums, reduce_factors
from mse_lab.policy import Policy


@dataclass(frozen=True)
class Scores:
    """Inner products of the scores of a block of N completions.

    Attributes:
        gram_NN: <W_i, W_j>.
        products_N: <W_i, r> with the reference r.
        norms2: Parameter name -> ||W_i||^2 in that parameter, (N,).
        log_probs_N: log pi(Y_i | x), recomputed from the whole sequence.
    """

    gram_NN: NDArray[np.float64]
    products_N: NDArray[np.float64]
    norms2: dict[str, NDArray[np.float64]]
    log_probs_N: NDArray[np.float64]


def _linear(module: nn.Linear, x: Tensor, d: Tensor) -> dict[str, Factor]:
    x, d = x.flatten(1, -2), d.flatten(1, -2)
    return {"weight": OuterProducts(d, x), "bias": Dense(d.sum(1))}


def _conv1d(module: Conv1D, x: Tensor, d: Tensor) -> dict[str, Factor]:
    """GPT-2's linear layer, its weight stored as (input, output)."""
    x, d = x.flatten(1, -2), d.flatten(1, -2)
    return {"weight": OuterProducts(x, d), "bias": Dense(d.sum(1))}


def _embedding(module: nn.Embedding, x: Tensor, d: Tensor) -> dict[str, Factor]:
    if module.padding_idx is not None:
        # As autograd has it: the padding row is a constant when looked up.
        d = d * (x != module.padding_idx)[..., None]
    return {"weight": RowSums(x, d)}


def _any_module(module: nn.Module, x: Tensor, d: Tensor) -> dict[str, Factor]:
    """Differentiate the module's own forward for each completion: norms and the like."""
    parameters = {name: p.detach() for name, p in module.named_parameters(recurse=False)}

    def pull_back(x_one: Tensor, d_one: Tensor) -> dict[str, Tensor]:
        def run(values: dict[str, Tensor]) -> Tensor:
            return torch.func.functional_call(module, values, (x_one[None],))

        pull: Any = torch.func.vjp(run, parameters)[1]
        return pull(d_one[None])[0]

    gradients = torch.func.vmap(pull_back)(x, d)
    return {name: Dense(gradient) for name, gradient in gradients.items()}


# By exact type: a subclass may compute something else and is differentiated as it is.
_RULES: dict[type, Callable[[Any, Tensor, Tensor], dict[str, Factor]]] = {
    nn.Linear: _linear,
    Conv1D: _conv1d,
    nn.Embedding: _embedding,
}


def _refuse(module_name: str, module: nn.Module, reason: str) -> InputError:
    return InputError(
        f"no exact score for {module_name} ({type(module).__name__}): {reason}; "
        f"leave it out with parameters: ['^(?!{module_name}[.])']"
    )


class _Recorder:
    """Meets every use of a parameter, forward and backward, and reduces its factors."""

    def __init__(self, policy: Policy, count: int, reference: Mapping[str, Tensor]) -> None:
        self.policy = policy
        self.count = count
        self.reference = reference
        self.names = {id(p): name for name, p in policy.parameters.items()}
        self.replaying = False
        self.awaited: Counter[str] = Counter()
        self.factors: dict[str, list[Factor]] = defaultdict(list)
        self.gram = torch.zeros(count, count, dtype=torch.float64, device=policy.device)
        self.products = torch.zeros(count, dtype=torch.float64, device=policy.device)
        self.norms2: dict[str, NDArray[np.float64]] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Hook every module that owns a parameter that counts, inside the block."""
        handles = []
        for module_name, module in self.policy.model.named_modules():
            own = {
                local: self.names[id(parameter)]
                for local, parameter in module.named_parameters(recurse=False)
                if id(parameter) in self.names
            }
            if own:
                hook = partial(self._meet_forward, module_name, own)
                handles.append(module.register_forward_hook(hook, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _meet_forward(
        self,
        module_name: str,
        own: dict[str, str],
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> Tensor | None:
        if self.replaying:
            return None  # `_any_module` runs the module once more
        inputs = [*args, *kwargs.values()]
        if (
            len(inputs) != 1
            or not isinstance(inputs[0], Tensor)
            or not isinstance(output, Tensor)
        ):
            raise _refuse(module_name, module, "it maps more than one tensor to one")
        x = inputs[0]
        if output.shape[0] == x.shape[0] == 1:
            # One result for the whole batch, such as position embeddings: one each.
            x = x.expand(self.count, *x.shape[1:])
            output = output.expand(self.count, *output.shape[1:])
        if not len(x) == len(output) == self.count or output.dim() < 3:
            raise _refuse(module_name, module, "its batch is not the completions'")
        if not output.requires_grad:
            output.requires_grad_(True)
        self.awaited.update(own.values())
        output.register_hook(partial(self._meet_backward, module, own, x.detach()))
        return output

    def _meet_backward(
        self, module: nn.Module, own: dict[str, str], x: Tensor, d: Tensor
    ) -> None:
        self.replaying = True
        found = _RULES.get(type(module), _any_module)(module, x, d)
        self.replaying = False
        for local, name in own.items():
            self.factors[name].append(found[local])
            self.awaited[name] -= 1
            if not self.awaited[name]:
                self._reduce(name)

    def _reduce(self, name: str) -> None:
        reduced = reduce_factors(self.factors.pop(name), self.reference[name])
        self.gram += reduced.gram_NN
        self.products += reduced.products_N
        self.norms2[name] = reduced.gram_NN.diagonal().cpu().numpy()

    def finish(self) -> None:
        """Reduce what had a use outside the loss; refuse a parameter never met."""
        for name in list(self.factors):
            self._reduce(name)
        for name in self.reference:
            if name not in self.norms2:
                module_name, _, _ = name.rpartition(".")
                module = self.policy.model.get_submodule(module_name)
                raise _refuse(
                    module_name, module, f"{name} is used without calling the module"
                )


def sequence_log_probs(
    policy: Policy, prompt: list[int], completions: Completions, padding: int = 0
) -> Tensor:
    """Compute log pi(Y_i | x) from whole sequences, no cache, padded on the right.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: Its completions.
        padding: Tokens of padding beyond the longest completion.

    Returns:
        Differentiable log-probabilities (N,). What follows a completion cannot change
        them: attention is causal and the sum stops at its length.
    """
    longest = int(completions.lengths_N.max())
    tokens = torch.from_numpy(completions.tokens_NT[:, :longest]).to(policy.device)
    tokens = nn.functional.pad(tokens, (0, padding))
    start = torch.tensor(prompt, device=policy.device).expand(len(completions), -1)
    inputs = torch.cat([start, tokens[:, :-1]], dim=1)
    logits = policy.model(inputs, use_cache=False, logits_to_keep=tokens.shape[1]).logits
    return sum_own_tokens(policy, logits, tokens, completions)


def sum_own_tokens(
    policy: Policy, logits_NTV: Tensor, tokens_NT: Tensor, completions: Completions
) -> Tensor:
    """Sum each completion's token log-probabilities up to its length, (N,)."""
    log_probs = policy.log_probabilities(logits_NTV).gather(-1, tokens_NT[..., None])[
        ..., 0
    ]
    lengths = torch.from_numpy(completions.lengths_N).to(policy.device)
    own = torch.arange(tokens_NT.shape[1], device=policy.device) < lengths[:, None]
    return torch.where(own, log_probs, 0).sum(1)


def score_block(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor],
    padding: int = 0,
) -> Scores:
    """Score a block of completions in one forward and backward pass.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: The block; products are formed between any two of it.
        reference: Parameter name -> reference gradient, for every parameter that the
            policy's log-probability depends on.
        padding: Tokens of padding beyond the longest completion; changes nothing.

    Returns:
        The block's inner products, float64.

    Raises:
        InputError: A module with such a parameter has no exact rule; it is named.
    """
    recorder = _Recorder(policy, len(completions), reference)
    with recorder.recording(), torch.enable_grad():
        log_probs = sequence_log_probs(policy, prompt, completions, padding)
    log_probs.sum().backward()
    recorder.finish()
    return Scores(
        gram_NN=recorder.gram.cpu().numpy(),
        products_N=recorder.products.cpu().numpy(),
        norms2=recorder.norms2,
        log_probs_N=log_probs.detach().double().cpu().numpy(),
    )
