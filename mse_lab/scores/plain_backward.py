"""Scores as autograd forms them: one completion at a time, by plain backward passes.

They need no rule (`scoring_plan.py`): whatever a model computes, and by whatever kernel,
the gradient of one completion's log-probability is its score W. Norms and products with the
reference are exact, summed in float64. So are the products between completions where the
gradients of a block fit (`sketches.vectors_fit`); else they are those of count-sketches,
which are unbiased, and so is all that is linear in the Gram matrix, as the laws and errors
are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_sums
from mse_lab.policy.policy import Policy
from mse_lab.scores.factors import at_least_float32, slices
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.reference import gradient_hooks, inner_product
from mse_lab.scores.sketches import SCORE_BUCKETS, Sketch, vectors_fit


class PlainBackward:
    """Inner products of a block's scores, which come whole, one after another."""

    def __init__(
        self,
        policy: Policy,
        count: int,
        reference: Mapping[str, Tensor] | None,
        weighted: Sequence[Weighted],
    ) -> None:
        """Take `count` scores; keep them, or sketches, for the products between them."""
        self.products = np.zeros(count)
        self.norms2 = {name: np.zeros(count) for name in policy.parameters}
        self._policy, self._reference = policy, reference or {}
        self._weighted, self._sketched = weighted, not vectors_fit(count, policy.size)
        # Parameter -> completion -> its flat gradient; or a sketch of all parameters.
        self._kept: dict[str, dict[int, Tensor]] = defaultdict(dict)

    @property
    def gram(self) -> Floats:
        """<W_i, W_j>, (N, N): the diagonal exact, the rest as exact as what is kept."""
        norms2_N = np.sum([*self.norms2.values()], axis=0)
        gram_NN = np.zeros((len(norms2_N), len(norms2_N)))
        for kept in self._kept.values():
            place, flat = np.ix_([*kept], [*kept]), [*kept.values()]
            for part in slices(len(flat[0]), 8 * len(flat)):
                rows_ND = torch.stack([one[part] for one in flat]).double()
                gram_NN[place] += (rows_ND @ rows_ND.T).cpu().numpy()
        np.fill_diagonal(gram_NN, norms2_N)
        return gram_NN

    def _take(self, index: int, one: Sketch | None, name: str, gradient: Tensor) -> None:
        """Take a completion's gradient in one parameter."""
        flat = at_least_float32(gradient.flatten())
        self.norms2[name][index] = inner_product(flat, flat)
        if name in self._reference:
            self.products[index] += inner_product(flat, self._reference[name])
        for weights_N, keeper in self._weighted:
            if weight := weights_N[index]:
                keeper.add(name, [flat * weight])
        if one is None:
            self._kept[name][index] = flat
        else:
            one.add(name, [flat])

    def run(
        self, prompt: list[int], some: Completions, padding: int
    ) -> tuple[Floats, Floats]:
        """Differentiate the completions, one pass each; give what `TokenSums` has, (N,)."""
        log_probs_N, logit_norms2_N = np.zeros((2, len(some)))
        # Another hash for each block, so that their errors are independent.
        seed = crc32(np.concatenate([prompt, *some.unpadded]).tobytes())
        for index in range(len(some)):
            one = None
            if self._sketched:
                one = Sketch(self._policy.parameters, seed, SCORE_BUCKETS)
            take = partial(self._take, index, one)
            with torch.enable_grad(), gradient_hooks(self._policy, take):
                single = some[index : index + 1]
                log_prob_1, norm2_1 = sequence_sums(self._policy, prompt, single, padding)
                # An expert that counts may have no part in a completion.
                if log_prob_1.requires_grad:
                    log_prob_1.backward()
            if one is not None:
                self._kept[""][index] = torch.from_numpy(one.vector)
            log_probs_N[index] = float(log_prob_1.detach())
            logit_norms2_N[index] = float(norm2_1)
        return log_probs_N, logit_norms2_N
