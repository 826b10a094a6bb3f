"""A completion alone, padded and in its block: is it the same score?

Alone it is differentiated by plain autograd, without hooks or factors, so that the
comparison also finds a use of a parameter that the hooks do not see.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy
from mse_lab.policy.sharding import is_sharded
from mse_lab.scores.reference import inner_product, meeting_gradients
from mse_lab.scores.score_block import Scores, Scoring, score_block

EXTRA_PADDING = 3


def _alone(
    policy: Policy,
    prompt: list[int],
    completion: Completions,
    reference: Mapping[str, Tensor],
) -> dict[str, tuple[float, float]]:
    """Squared norm and product with the reference in every parameter, by autograd."""
    found: dict[str, tuple[float, float]] = {}
    sums: dict[str, Tensor] = {}

    def meet(name: str, gradient: Tensor) -> None:
        if is_sharded(policy.model):  # a tied matrix comes once for each use
            gradient = sums[name] = sums.get(name, 0) + gradient
        found[name] = (
            inner_product(gradient, gradient),
            inner_product(gradient, reference[name]),
        )

    with torch.enable_grad(), meeting_gradients(policy, meet):
        sequence_log_probs(policy, prompt, completion).sum().backward()
    return found


def score_difference(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor],
    block: Scores,
    how: Scoring | None = None,
) -> float:
    """Compare the shortest completion of a block alone, padded and batched.

    Give the largest difference of ||W||^2 in any parameter, relative to the whole ||W||^2,
    and of <W, rbar>, relative to ||W|| ||rbar||.
    """
    index = int(np.argmin(completions.lengths_N))
    one = completions[index : index + 1]
    alone = _alone(policy, prompt, one, reference)
    padding = int(completions.lengths_N.max() - one.lengths_N[0]) + EXTRA_PADDING
    padded = score_block(policy, prompt, one, reference, padding, how)
    norm2 = sum(norm for norm, _ in alone.values())
    product = sum(inner for _, inner in alone.values())
    reference_norm = np.sqrt(sum(inner_product(part, part) for part in reference.values()))
    differences = [0.0]
    for scores, row in ((padded, 0), (block, index)):
        norms = [abs(scores.norms2[name][row] - alone[name][0]) for name in alone]
        differences.append(max(norms) / norm2 if norm2 else max(norms))
        if norm2 and reference_norm:
            gap = abs(scores.products_N[row] - product)
            differences.append(gap / (np.sqrt(norm2) * reference_norm))
    return float(max(differences))
