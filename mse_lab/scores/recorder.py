"""The recorder: takes the factors of a pass and reduces them to inner products.

By the plan (`scoring_plan.py`) each module's rule gives the factors of its parameters on
the way back. A parameter is reduced once the backward pass has met all its uses, so that
little is held at a time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.arrays import Floats
from mse_lab.policy.policy import Policy
from mse_lab.scores.factors import Factor
from mse_lab.scores.module_hooks import Call, ModuleHooks, NoRule
from mse_lab.scores.parameter_scores import reduce_factors, weighted_sum
from mse_lab.scores.scoring_plan import find_plan
from mse_lab.scores.sketches import Keeper


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
        weighted: Sequence[Weighted] = (),
        tokens: int = 0,
        shared: int = 0,
    ) -> None:
        """Score `count` completions; `tokens` and `shared` are as in `Call`."""
        super().__init__(policy.model, count, tokens, shared)
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

    @contextmanager
    def recording(self, *, without: nn.Module | None) -> Iterator[None]:
        """Meet every module of the plan, but for one met elsewhere, inside the block."""
        owned = {
            owner: answer.names
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
                name in answer.names.values() for answer in self._plan.values()
            ):
                raise NoRule(f"{name} has no rule: the calibration pass did not use it")
            # No completion of the block depends on it.
            self.norms2[name] = np.zeros(len(self.products))

    def expect(self, name: str) -> None:
        """Count a use of a parameter, whose factor will come."""
        self._awaited[name] += 1

    def take_factor(self, name: str, factor: Factor) -> None:
        """Take the factor of one use; the last one reduces the parameter's scores."""
        self._factors[name].append(factor)
        self._awaited[name] -= 1
        if not self._awaited[name]:
            self._reduce(name)

    def take_call(self, call: Call) -> None:
        """Await the factors of a call's parameters."""
        call.result = None
        for name in call.names.values():
            self.expect(name)

    def take_gradient(self, call: Call, d: Tensor) -> None:
        """Take the factors of a call's parameters, by the module's rule."""
        factors = self._plan[call.owner].rule.factors(call, d)
        for local, name in call.names.items():
            self.take_factor(name, factors[local])

    def _reduce(self, name: str) -> None:
        factors, parameter = self._factors.pop(name), self._policy.parameters[name]
        # None where no completion of the reference used it.
        reference = (self._reference or {}).get(name)
        reduced = reduce_factors(factors, reference, parameter.shape)
        for one in self._weighted:
            weights_N = torch.from_numpy(one.weights_N).to(parameter.device)
            one.keeper.add(name, weighted_sum(factors, weights_N, parameter.shape))
        gram_NN = reduced.gram_NN.cpu()
        self.gram += gram_NN
        self.products += reduced.products_N.cpu()
        self.norms2[name] = gram_NN.diagonal().numpy().copy()
