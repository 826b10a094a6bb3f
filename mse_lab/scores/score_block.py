"""Scores of a block: completions -> Gram matrix, products with the reference, norms.

The score of completion i is W_i = grad log pi(Y_i | x) in all parameters that count, its
log-probability summed over its own tokens, end token included. One forward and backward
pass over a block of completions yields every W_i in factored form (`factors.py`), layer
by layer; each parameter's factors are reduced to inner products and dropped as soon as
the backward pass has met all uses of the parameter. No score is ever stored, and the
parameters' own gradients are never accumulated. Where a module has no rule for that, each
completion has a plain pass of its own (`plain_backward.py`). Torch ends here: what leaves
is NumPy.

As a check a completion is scored alone and padded, too (`score_difference`). Alone it is
differentiated by plain autograd, without hooks or factors, so that the comparison also
finds a use of a parameter that the hooks do not see. Where completions are differentiated
alone anyway, it is done so beside another one, and longer, in one batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_sums
from mse_lab.policy.policy import Policy
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.plain_backward import PlainBackward
from mse_lab.scores.recorder import Recorder, Weighted
from mse_lab.scores.reference import gradient_hooks, inner_product


class Scoring(NamedTuple):
    """How a block is scored; memory and time differ."""

    sliced: bool = False  # Whether the logits are formed in slices only.
    alone: bool = False  # Whether each completion has a pass of its own, without rules.


WHOLE = Scoring()  # In one pass, in which everything is kept.


@dataclass(frozen=True)
class Scores:
    """Inner products of the scores of a block of N completions."""

    gram_NN: Floats  # <W_i, W_j>.
    products_N: Floats  # <W_i, r> with the reference r; zero without one.
    norms2: dict[str, Floats]  # Parameter name -> ||W_i||^2 in that parameter, (N,).
    log_probs_N: Floats  # log pi(Y_i | x), recomputed from the whole sequence.
    logit_norms2_N: Floats  # The logits norms (`policy/log_probabilities.py`).


def _score_together(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor] | None,
    padding: int,
    how: Scoring,
    weighted: Sequence[Weighted],
) -> Scores:
    count = len(completions)
    if how.alone:
        alone = PlainBackward(policy, count, reference, weighted)
        of_all = alone.run(prompt, completions, padding)
        return Scores(alone.gram, alone.products, alone.norms2, *of_all)
    tokens = len(prompt) + int(completions.lengths_N.max()) + padding - 1
    recorder = Recorder(policy, count, reference, weighted, tokens, len(prompt))
    head = SlicedHead(policy) if how.sliced else None
    with (
        recorder.recording(without=head.module if head else None),
        torch.enable_grad(),
    ):
        sums = (
            head.sequence_sums(prompt, completions, padding, recorder)
            if head
            else sequence_sums(policy, prompt, completions, padding)
        )
        sums.log_probs_N.sum().backward()
    return Scores(
        gram_NN=recorder.gram.numpy(),
        products_N=recorder.products.numpy(),
        norms2=recorder.norms2,
        log_probs_N=sums.log_probs_N.detach().double().cpu().numpy(),
        logit_norms2_N=sums.logit_norms2_N.double().cpu().numpy(),
    )


def score_block(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor] | None,
    padding: int = 0,
    how: Scoring = WHOLE,
    weighted: Sequence[Weighted] = (),
) -> Scores:
    """Score a block of completions, one backward pass through each distinct one.

    Products are formed between any two of the block, and with the reference gradient, if
    there is one, in every parameter that log pi depends on. Padding beyond the longest
    completion changes nothing; `how` says what is kept in memory, everything by default;
    `weighted` sums of the scores come out of the same pass.
    """
    distinct, place_N = completions.distinct()
    # Completions that are equal add their weights up. Of equal rewards all are zero, and so
    # is the sum that the keeper starts with.
    totals = [
        Weighted(
            np.bincount(place_N, one.weights_N, len(distinct)).astype(float), one.keeper
        )
        for one in weighted
    ]
    shares = [one for one in totals if one.weights_N.any()]
    scores = _score_together(policy, prompt, distinct, reference, padding, how, shares)
    return Scores(
        gram_NN=scores.gram_NN[np.ix_(place_N, place_N)],
        products_N=scores.products_N[place_N],
        norms2={name: norms2_N[place_N] for name, norms2_N in scores.norms2.items()},
        log_probs_N=scores.log_probs_N[place_N],
        logit_norms2_N=scores.logit_norms2_N[place_N],
    )


EXTRA_PADDING = 3


def _by_autograd(
    policy: Policy,
    prompt: list[int],
    batch: Completions,
    reference: Mapping[str, Tensor],
) -> dict[str, tuple[float, float]]:
    """Give ||W||^2 and <W, rbar> of a batch's first completion, in every parameter."""
    figures: dict[str, tuple[float, float]] = {}

    def take(name: str, gradient: Tensor) -> None:
        figures[name] = (
            inner_product(gradient, gradient),
            inner_product(gradient, reference[name]),
        )

    with torch.enable_grad(), gradient_hooks(policy, take):
        sequence_sums(policy, prompt, batch).log_probs_N[0].backward()
    return figures


def score_difference(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor],
    block: Scores,
    how: Scoring = WHOLE,
) -> float:
    """Compare the shortest completion of a block alone, padded and batched.

    Give the largest difference of ||W||^2 in any parameter, relative to the whole ||W||^2,
    and of <W, rbar>, relative to ||W|| ||rbar||.
    """
    order = np.argsort(completions.lengths_N, kind="stable")
    index, one = int(order[0]), completions[order[:1]]
    compared = completions[order[[0, -1]]] if how.alone else one
    alone = _by_autograd(policy, prompt, compared, reference)
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
