"""A completion alone, padded and in its block: is it the same score?

Alone it is differentiated by plain autograd, without hooks or factors, so that the
comparison also finds a use of a parameter that the hooks do not see. Where completions are
differentiated alone anyway, it is done so beside another one, and longer, in one batch.
"""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.sharding import is_sharded
from mse_lab.scores.plain_backward import plain_passes
from mse_lab.scores.reference import inner_product, meeting_gradients
from mse_lab.scores.score_block import Scores, Scoring, is_alone, score_block

EXTRA_PADDING = 3


def _by_autograd(
    policy: Policy,
    prompt: list[int],
    batch: Completions,
    how: Scoring,
    reference: Mapping[str, Tensor],
) -> dict[str, tuple[float, float]]:
    """Give ||W||^2 and <W, rbar> of a batch's first completion, in every parameter."""
    found: dict[str, tuple[float, float]] = {}
    sums: dict[str, Tensor] = {}

    def meet(name: str, gradient: Tensor) -> None:
        if is_sharded(policy.model):  # a tied matrix comes once for each use
            gradient = sums[name] = sums.get(name, 0) + gradient
        found[name] = (
            inner_product(gradient, gradient),
            inner_product(gradient, reference[name]),
        )

    passes = plain_passes(policy, in_parts=how.layer is not None, sliced=how.sliced)
    with passes as log_probs, meeting_gradients(policy, meet):
        log_probs(prompt, batch, 0)[0].backward()
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
    order = np.argsort(completions.lengths_N, kind="stable")
    index, one = int(order[0]), completions[order[:1]]
    how = how or Scoring(len(completions))
    # What a rule's pass keeps is no matter to the pass of one completion.
    beside, plain = completions[order[[0, -1]]], Scoring(1)
    compared = (beside, how) if is_alone(policy, how) else (one, plain)
    alone = _by_autograd(policy, prompt, *compared, reference)
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
