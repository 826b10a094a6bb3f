"""Calls: what went into a module and came out of it, and whose rows are whose.

Scores need to know which rows of a tensor belong to which completion. Tensors come as
(N, ...), completions first; as (N T, ...), their tokens flattened, as mixtures of experts
have them; and as (1, ...), one for all completions, such as position embeddings.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]


class Unattributed(Exception):
    """A module's rows cannot be told apart by completion; its parent's may be.

    Attributes:
        owner: The module's name.
        reason: Why, in words.
    """

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(owner, reason)
        self.owner, self.reason = owner, reason


def map_tensors(change: Change, value: Any) -> Any:
    """Change every tensor in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        changed = {key: map_tensors(change, one) for key, one in value.items()}
        return changed if type(value) is dict else type(value)(**changed)
    if isinstance(value, tuple | list):
        parts = [map_tensors(change, one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Walk the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from tensors_in(one)


def results_in(value: Any) -> list[Tensor]:
    """List what a gradient can come back through: the tensors of real numbers."""
    return [tensor for tensor in tensors_in(value) if tensor.is_floating_point()]


def _lead(tensor: Tensor) -> int:
    return tensor.shape[0] if tensor.dim() else 1


class Batch(NamedTuple):
    """How the completions of a pass lie in its tensors.

    Attributes:
        rows: N, the completions.
        tokens: T, the tokens of each that the model reads.
        shared: Tokens of the prompt, the first ones, which are the same for all.
    """

    rows: int
    tokens: int
    shared: int = 0

    def split(self, tensor: Tensor) -> Tensor | None:
        """View a tensor as (N, tokens, ...); None where its rows are not completions'."""
        features = tensor.is_floating_point()
        if _lead(tensor) == self.rows and tensor.dim() > 1 + features:
            return tensor
        if _lead(tensor) == self.rows * self.tokens and tensor.dim() > features:
            return tensor.unflatten(0, (self.rows, self.tokens))
        return None

    def has_parts(self, tensor: Tensor) -> bool:
        """Whether each completion has a part of a tensor, not all the whole."""
        return _lead(tensor) in (self.rows, self.rows * self.tokens)

    def part(self, tensor: Tensor, index: int) -> Tensor:
        """Cut out a completion's part; what is common to all stays whole."""
        if _lead(tensor) == self.rows:
            return tensor[index : index + 1] if tensor.dim() else tensor
        if _lead(tensor) == self.rows * self.tokens:
            return tensor[index * self.tokens : (index + 1) * self.tokens]
        return tensor


@dataclass
class Call:
    """One call of a module that has parameters to be scored.

    Attributes:
        owner: The module's name.
        module: The module.
        own: The parameters to be scored: name inside the module -> name.
        args: What it was called with, outside any graph.
        kwargs: The same, by name.
        batch: How completions lie in it.
        results: What came out, outside any graph; empty where its rule needs none.
    """

    owner: str
    module: nn.Module
    own: dict[str, str]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    batch: Batch
    results: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.args, self.kwargs = map_tensors(Tensor.detach, (self.args, self.kwargs))
        self.inputs = list(tensors_in((self.args, self.kwargs)))
        self._versions = [tensor._version for tensor in self.inputs]

    @property
    def common(self) -> bool:
        """Whether it is one call for all completions, such as position embeddings."""
        alike = self.inputs and all(_lead(tensor) == 1 for tensor in self.inputs)
        return bool(alike) and self.batch.rows > 1

    def attribute(self, results: list[Tensor]) -> None:
        """Raise where the rows of what came out cannot be told apart by completion."""
        if self.common:
            known = all(_lead(tensor) == 1 for tensor in results)
        else:
            known = all(
                any(self.batch.split(tensor) is not None for tensor in tensors)
                for tensors in (self.inputs, results)
            )
        if not known:
            raise Unattributed(self.owner, "its batch is not the completions'")

    def refuse_changed(self) -> None:
        """Raise where an input was written over since the call."""
        if [tensor._version for tensor in self.inputs] != self._versions:
            raise Unattributed(self.owner, "its input is changed in place after the call")

    def values(self) -> dict[str, Tensor]:
        """Give the own parameters' values, by their names inside the module."""
        return {local: self.module.get_parameter(local).detach() for local in self.own}

    def run(self, values: dict[str, Tensor], index: int | None = None) -> list[Tensor]:
        """Run the module once more with these values of parameters.

        Args:
            values: By names inside the module; the others are as they are.
            index: The completion to run it for alone; None for all of them at once.
        """
        args, kwargs = self.args, self.kwargs
        if index is not None and not self.common:
            args, kwargs = map_tensors(
                lambda tensor: self.batch.part(tensor, index), (args, kwargs)
            )
        with torch.enable_grad():
            output = torch.func.functional_call(
                self.module, values, args, kwargs, tie_weights=False
            )
        return results_in(output)
