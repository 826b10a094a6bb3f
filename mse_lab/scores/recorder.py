"""The recorder: meets every use of a parameter in a pass and reduces its scores.

Hooks see each module's input on the way forward and the gradient of its output on the way
back, which is all that the module's rule needs. A parameter is reduced once the backward
pass has met all its uses, so that little is held at a time.

A decoder layer that is recomputed from its input comes by twice: without gradients, when
its uses are counted, and again in parts of the block, whose factors are joined.

Where the rows of a module's tensors are not the completions', or where its parameters are
used without calling it, the module around it is differentiated in its place, from the next
pass on (`hand_up`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from mse_lab.policy.policy import Policy
from mse_lab.scores.autograd_rule import TooLarge
from mse_lab.scores.factors import Factor, join_completions, reduce_factors
from mse_lab.scores.layer_rules import Rule, choose_rule, is_product
from mse_lab.scores.module_calls import (
    Batch,
    Call,
    Unattributed,
    map_tensors,
    results_in,
    tensors_in,
)
from mse_lab.scores.refusals import kind, refuse

# Of each model, the parameters that a module around their own answers for: where they
# are (module and name inside it) -> that module.
_ANSWERS: WeakKeyDictionary[nn.Module, dict[tuple[str, str], str]] = WeakKeyDictionary()


def _expose(call: Call, several: bool, exposed: list[Tensor], tensor: Tensor) -> Tensor:
    """Have a result's gradient seen, each completion's own: what the model goes on with."""
    if not tensor.is_floating_point():
        return tensor
    if call.common:
        tensor = tensor.expand(call.batch.rows, *tensor.shape[1:])
    if not torch.is_grad_enabled():
        return tensor
    if not tensor.requires_grad:
        tensor = tensor.detach().requires_grad_()
        exposed.append(tensor)
        # A model may add to what a layer gives in place, which a leaf forbids.
        looked_up = not any(given.is_floating_point() for given in call.inputs)
        return tensor if looked_up else tensor.clone()
    if several:
        # One result may be computed from another: what the model goes on with is a copy,
        # whose gradient leaves that way out.
        tensor = tensor.clone()
    elif tensor._is_view() and is_product(call.module):
        # A view that is changed in place loses its hooks, and products are often views.
        tensor = torch.ops.aten._unsafe_view(tensor, tensor.shape)
    exposed.append(tensor)
    return tensor


def _make_contiguous(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Lay out in one piece what is multiplied: a cut would be taken row by row."""
    return tuple(map_tensors(Tensor.contiguous, args))


class Recorder:
    """The inner products of a block's scores, complete once the backward pass is.

    Attributes:
        gram: <W_i, W_j>, float64 (N, N).
        products: <W_i, r>, float64 (N,).
        norms2: Parameter name -> ||W_i||^2 in that parameter, (N,).
        replaying: Whether a rule runs a module once more, which is none of the pass.
    """

    def __init__(
        self, policy: Policy, count: int, reference: Mapping[str, Tensor], shared: int = 0
    ) -> None:
        self.gram = torch.zeros(count, count, dtype=torch.float64)
        self.products = torch.zeros(count, dtype=torch.float64)
        self.norms2: dict[str, NDArray[np.float64]] = {}
        self._policy = policy
        self._reference = reference
        self._shared = shared
        self._names = {id(p): name for name, p in policy.parameters.items()}
        self._awaited: Counter[str] = Counter()
        self._factors: dict[str, list[Factor]] = defaultdict(list)
        self.replaying = False
        self._owned: dict[str, dict[str, str]] = {}
        self._called: set[str] = set()
        self._unanswered: Counter[str] = Counter()
        self._hooks: list[Any] = []
        self._tokens: int | None = None
        # Of the pass under way: its completions, and whether its uses are counted already.
        self._rows, self._counted = count, False
        self._parts: list[dict[str, list[Factor]]] | None = None

    def own_parameters(self, module: nn.Module) -> dict[str, str]:
        """Name a module's own parameters that count: local name -> name."""
        return {
            local: self._names[id(parameter)]
            for local, parameter in module.named_parameters(recurse=False)
            if id(parameter) in self._names
        }

    def _answerable(self, without: nn.Module | None) -> dict[str, dict[str, str]]:
        """Which module answers for which parameters: local name -> name."""
        owned: dict[str, dict[str, str]] = defaultdict(dict)
        answers = _ANSWERS.get(self._policy.model, {})
        for module_name, module in self._policy.model.named_modules():
            for local, name in self.own_parameters(module).items():
                if module is not without:
                    owner = answers.get((module_name, local), module_name)
                    place = f"{module_name}.{local}"
                    owned[owner][place[len(owner) :].lstrip(".")] = name
        return owned

    @contextmanager
    def recording(self, *, without: nn.Module | None = None) -> Iterator[None]:
        """Hook every module that answers for a parameter that counts, inside the block.

        Args:
            without: A module whose factors are met elsewhere.

        Raises:
            Unattributed: `hand_up` and try again.
        """
        self._owned = self._answerable(without)
        see = self._policy.model.register_forward_pre_hook
        handles = [see(self._see_tokens, with_kwargs=True)]
        for owner, own in self._owned.items():
            hook = partial(self._meet_forward, owner, own)
            module = self._policy.model.get_submodule(owner)
            handles.append(module.register_forward_hook(hook, with_kwargs=True))
            if is_product(module):
                handles.append(module.register_forward_pre_hook(_make_contiguous))
        try:
            yield
        finally:
            for handle in (*handles, *self._hooks):
                handle.remove()

    def _see_tokens(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self._tokens is None:
            self._tokens = next(tensors_in((args, kwargs))).shape[1]

    @contextmanager
    def passing(self, rows: int, *, counted: bool) -> Iterator[None]:
        """Meet a pass over so many of the completions, inside the block.

        Args:
            rows: Completions in it.
            counted: Whether its uses of parameters are counted already.
        """
        before = self._rows, self._counted
        self._rows, self._counted = rows, counted
        if self._parts is not None:
            self._parts.append(defaultdict(list))
        try:
            yield
        finally:
            self._rows, self._counted = before

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Join the factors of the passes inside the block, each a part of the whole."""
        self._parts = []
        yield
        parts, self._parts = self._parts, None
        for name in list(parts[0]):
            shape = self._policy.parameters[name].shape
            for uses in zip(*(part.pop(name) for part in parts), strict=True):
                self.meet(name, join_completions(uses, shape))

    def expect(self, name: str) -> None:
        """Count a use of a parameter, whose factor will be met."""
        if not self._counted:
            self._awaited[name] += 1

    def meet(self, name: str, factor: Factor) -> None:
        """Take the factor of one use; the last one reduces the parameter's scores."""
        if self._parts is not None:
            self._parts[-1][name].append(factor)
            return
        self._factors[name].append(factor)
        self._awaited[name] -= 1
        if not self._awaited[name]:
            self._reduce(name)

    def _meet_forward(
        self,
        owner: str,
        own: dict[str, str],
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> Any:
        if self.replaying:
            return None  # a rule runs the module once more
        batch = Batch(self._rows, self._tokens or 0, self._shared)
        call, results = Call(owner, module, own, args, kwargs, batch), results_in(output)
        call.attribute(results)
        with self._replay():
            rule = choose_rule(call, results)
        self._called.add(owner)
        for name in own.values():
            self.expect(name)
        exposed: list[Tensor] = []
        self._unanswered[owner] += torch.is_grad_enabled()
        expose = partial(_expose, call, len(results) > 1, exposed)
        output = map_tensors(expose, output)
        back = partial(self._meet_backward, call, rule)
        if len(exposed) == 1:
            exposed[0].register_hook(lambda d: back([d]))
        elif exposed:
            # Such a hook holds on to the graph, in a circle: it is removed at the end.
            self._hooks.append(register_multi_grad_hook(exposed, back))
        return output

    def _meet_backward(
        self, call: Call, rule: Rule, gradients: Sequence[Tensor | None]
    ) -> None:
        call.refuse_changed()
        self._unanswered[call.owner] -= 1
        with self._replay():
            try:
                # None: a result that the loss does not depend on, one of several.
                found = rule(
                    call,
                    [
                        torch.zeros_like(call.results[at]) if d is None else d
                        for at, d in enumerate(gradients)
                    ],
                )
            except TooLarge as large:
                raise refuse(self._policy, large.names, str(large)) from None
        for local, name in call.own.items():
            self.meet(name, found[local])

    @contextmanager
    def _replay(self) -> Iterator[None]:
        self.replaying = True
        try:
            yield
        finally:
            self.replaying = False

    def _reduce(self, name: str) -> None:
        reference = self._reference.get(name)
        if reference is None:  # no completion of the reference used it
            reference = torch.zeros_like(self._policy.parameters[name])
        reduced = reduce_factors(self._factors.pop(name), reference)
        gram_NN = reduced.gram_NN.cpu()
        self.gram += gram_NN
        self.products += reduced.products_N.cpu()
        self.norms2[name] = gram_NN.diagonal().numpy().copy()

    def finish(self) -> None:
        """Reduce what had a use outside the loss.

        Raises:
            Unattributed: A parameter that counts was used and not met.
        """
        for owner, own in self._owned.items():
            if self._unanswered[owner] and self._reference.keys() & own.values():
                raise Unattributed(owner, "no gradient reaches its result")
        for name in list(self._factors):
            self._reduce(name)
        unmet = self._reference.keys() - self.norms2.keys()
        for owner, own in self._owned.items():
            for name in unmet.intersection(own.values()):
                if owner not in self._called:
                    raise Unattributed(owner, f"{name} is used without calling the module")
                # Called without a graph, as autograd has it.
                self.norms2[name] = np.zeros(len(self.products))

    def hand_up(self, found: Unattributed) -> None:
        """Have the module around answer for a module's parameters, from now on.

        Its like in other layers are handed up, too.

        Raises:
            InputError: There is no module around it.
        """
        if "." not in found.owner:
            names = list(self._owned[found.owner].values())
            raise refuse(self._policy, names, found.reason)
        answers = _ANSWERS.setdefault(self._policy.model, {})
        for owner, own in self._owned.items():
            if re.fullmatch(kind(found.owner), owner):
                for local in own:
                    module_name, _, last = f"{owner}.{local}".rpartition(".")
                    answers[module_name, last] = owner.rpartition(".")[0]
