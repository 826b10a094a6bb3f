"""The recorder: takes the factors of a pass and reduces them to inner products.

By the plan (`scoring_plan.py`) each module's rule gives the factors of its parameters on
the way back. A parameter is reduced once the backward pass has met all its uses, so that
little is held at a time.

A decoder layer that is recomputed from its input runs twice: without gradients, when its
uses are counted, and again in parts of the block, whose factors are joined.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.policy.policy import Policy
from mse_lab.scores.factors import Factor, join_completions
from mse_lab.scores.module_calls import Call, NoExactScore
from mse_lab.scores.module_hooks import ModuleHooks
from mse_lab.scores.scoring_plan import find_plan, refuse
from mse_lab.scores.sketches import Keeper
from mse_lab.scores.tied_parameters import reduce_factors
from mse_lab.scores.weighted_sum import weighted_sum


class Weighted(NamedTuple):
    """A weighted sum of the scores, to be computed beside their inner products."""

    weights_N: Floats  # A weight for each completion.
    keeper: Keeper  # What takes the sum, a parameter at a time.


class Recorder(ModuleHooks):
    """The inner products of a block's scores, complete once the backward pass is."""

    def __init__(
        self,
        policy: Policy,
        count: int,
        reference: Mapping[str, Tensor] | None,
        shared: int = 0,
        weighted: Sequence[Weighted] = (),
    ) -> None:
        super().__init__(policy.model, count, shared)
        # <W_i, W_j>; <W_i, r>, zero without a reference; in each parameter ||W_i||^2.
        self.gram = torch.zeros(count, count, dtype=torch.float64)
        self.products = torch.zeros(count, dtype=torch.float64)
        self.norms2: dict[str, Floats] = {}
        self._policy = policy
        self._plan = find_plan(policy)
        self._reference = reference
        self._weighted = weighted
        self._awaited: Counter[str] = Counter()
        self._factors: dict[str, list[Factor]] = defaultdict(list)
        # Of the pass under way: whether its uses are counted already, and its parts.
        self._counted = False
        self._parts: list[dict[str, list[Factor]]] | None = None

    @contextmanager
    def recording(self, *, without: nn.Module | None = None) -> Iterator[None]:
        """Meet every module of the plan, but for one met elsewhere, inside the block."""
        owned = {
            owner: answer.own
            for owner, answer in self._plan.items()
            if self._policy.model.get_submodule(owner) is not without
        }
        with self.hooked(owned):
            yield
        for name in list(self._factors):  # with a use outside the loss
            self._reduce(name)
        expected = self._policy.parameters if self._reference is None else self._reference
        for name in expected.keys() - self.norms2.keys():
            # Without a reference nothing says which of the others the policy depends on.
            if self._reference is not None and not any(
                name in answer.own.values() for answer in self._plan.values()
            ):
                raise refuse(self._policy, name, "the calibration pass did not use it")
            # No completion of the block depends on it.
            self.norms2[name] = np.zeros(len(self.products))

    @contextmanager
    def passing(self, rows: int, *, counted: bool) -> Iterator[None]:
        """Meet a pass over so many of the completions, its uses counted already or not."""
        before = self.rows, self._counted
        self.rows, self._counted = rows, counted
        if self._parts is not None:
            self._parts.append(defaultdict(list))
        try:
            yield
        finally:
            self.rows, self._counted = before

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Join the factors of the passes inside the block, each a part of the whole."""
        self._parts = []
        yield
        parts, self._parts = self._parts, None
        for name in list(parts[0]):
            for uses in zip(*(part.pop(name) for part in parts), strict=True):
                self.meet(name, join_completions(uses))

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

    def meet_call(self, call: Call) -> bool:
        """Await the factors of a call's parameters."""
        if not call.attributed:
            raise self._refuse(call, "its batch is not the completions'")
        if not self._plan[call.owner].rule.keeps_results:
            call.results = []
        for name in call.own.values():
            self.expect(name)
        return True

    def meet_gradients(self, call: Call, gradients: list[Tensor]) -> None:
        """Meet the factors of a call's parameters, by the module's rule."""
        if call.changed:
            raise self._refuse(call, "its input is changed after the call")
        try:
            found = self._plan[call.owner].rule.factors(call, gradients)
        except NoExactScore as no:
            raise self._refuse(call, no.reason) from None
        for local, name in call.own.items():
            self.meet(name, found[local])

    def _refuse(self, call: Call, reason: str) -> InputError:
        return refuse(self._policy, next(iter(call.own.values())), reason)

    def _reduce(self, name: str) -> None:
        factors, parameter = self._factors.pop(name), self._policy.parameters[name]
        reference = None
        if self._reference is not None:
            # Zero where no completion of the reference used it.
            none = torch.zeros(parameter.shape, dtype=parameter.dtype)
            reference = self._reference.get(name, none.to(parameter.device))
        reduced = reduce_factors(factors, reference, parameter.shape)
        for weights, keeper in self._weighted:
            weights_N = torch.from_numpy(weights).to(parameter.device)
            keeper.add(name, weighted_sum(factors, weights_N, parameter.shape))
        gram_NN = reduced.gram_NN.cpu()
        self.gram += gram_NN
        self.products += reduced.products_N.cpu()
        self.norms2[name] = gram_NN.diagonal().numpy().copy()
