"""Scores of a block: completions -> Gram matrix, products with the reference, norms.

The score of completion i is W_i = grad log pi(Y_i | x) in all parameters that count, its
log-probability summed over its own tokens, end token included. One forward and backward
pass over a block of completions yields every W_i in factored form (`factors.py`), layer
by layer; each parameter's factors are reduced to inner products and dropped as soon as
the backward pass has met all uses of the parameter. No score is ever stored, and the
parameters' own gradients are never accumulated. Where a module has no rule for that, each
completion has a plain pass of its own (`plain_backward.py`). Torch ends here: what leaves
is NumPy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import block_diag
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy
from mse_lab.policy.sharding import is_sharded
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.plain_backward import PlainBackward, plain_passes
from mse_lab.scores.recomputed_layers import recomputed_layers
from mse_lab.scores.recorder import Recorder, Weighted
from mse_lab.scores.scoring_plan import missing_rule


class Scoring(NamedTuple):
    """How a block is scored; the scores are the same, memory and time are not."""

    # Completions whose products are formed with one another. If it is less than the largest
    # group, only norms and products with the reference are computed.
    block: int
    # Completions in one decoder layer at a time, which is recomputed from its input; None
    # keeps all activations.
    layer: int | None = None
    sliced: bool = False  # Whether the logits are formed in slices only.
    alone: bool = False  # Whether each completion has a pass of its own, without rules,
    sketched: bool = False  # and products between completions are those of sketches.


@dataclass(frozen=True)
class Scores:
    """Inner products of the scores of a block of N completions."""

    gram_NN: Floats  # <W_i, W_j>; NaN between completions that were not scored together.
    products_N: Floats  # <W_i, r> with the reference r; zero without one.
    norms2: dict[str, Floats]  # Parameter name -> ||W_i||^2 in that parameter, (N,).
    log_probs_N: Floats  # log pi(Y_i | x), recomputed from the whole sequence.


def is_alone(policy: Policy, how: Scoring) -> bool:
    """Whether each completion has a pass of its own."""
    return how.alone or missing_rule(policy, how.block) is not None


def _score_together(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor] | None,
    padding: int,
    how: Scoring,
    weighted: Sequence[Weighted],
) -> Scores:
    if is_alone(policy, how):
        if is_sharded(policy.model):  # no process has a whole gradient
            if missing := missing_rule(policy, how.block):
                raise InputError(f"a model in parts: {missing}; measure it whole")
            raise InputError("a model in parts: out of memory; hold it by more processes")
        count = len(completions)
        alone = PlainBackward(policy, count, reference, weighted, how.sketched)
        passes = plain_passes(policy, in_parts=how.layer is not None, sliced=how.sliced)
        with passes as log_probs_of:
            log_probs_N = alone.run(log_probs_of, prompt, completions, padding)
        return Scores(alone.gram, alone.products, alone.norms2, log_probs_N)
    recorder = Recorder(policy, len(completions), reference, len(prompt), weighted)
    head = SlicedHead(policy) if how.sliced else None
    with (
        recorder.recording(without=head.module if head else None),
        recomputed_layers(policy.model, recorder, how.layer),
        torch.enable_grad(),
    ):
        log_probs = (
            head.sequence_log_probs(prompt, completions, padding, recorder)
            if head
            else sequence_log_probs(policy, prompt, completions, padding)
        )
        log_probs.sum().backward()
    return Scores(
        gram_NN=recorder.gram.numpy(),
        products_N=recorder.products.numpy(),
        norms2=recorder.norms2,
        log_probs_N=log_probs.detach().double().cpu().numpy(),
    )


def _shares(
    place_N: NDArray[np.intp], distinct: int, block: int, weighted: Sequence[Weighted]
) -> Iterator[tuple[slice, list[Weighted]]]:
    """Cut distinct completions into blocks; those that are equal add their weights up."""
    totals = [
        (np.bincount(place_N, one.weights_N, distinct).astype(np.float64), one.keeper)
        for one in weighted
    ]
    for part in (slice(at, at + block) for at in range(0, distinct, block)):
        yield part, [Weighted(weights[part], keeper) for weights, keeper in totals]


def score_block(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor] | None,
    padding: int = 0,
    how: Scoring | None = None,
    weighted: Sequence[Weighted] = (),
) -> Scores:
    """Score a block of completions, one backward pass through each distinct one.

    Products are formed between any two of the block, and with the reference gradient, if
    there is one, in every parameter that log pi depends on. Padding beyond the longest
    completion changes nothing; `how` says what is kept in memory, everything if None;
    `weighted` sums of the scores come out of the same pass.
    """
    how = how or Scoring(len(completions))
    distinct, place_N = completions.distinct()
    parts = [
        _score_together(policy, prompt, distinct[part], reference, padding, how, share)
        for part, share in _shares(place_N, len(distinct), how.block, weighted)
    ]
    gram_NN = block_diag(*(part.gram_NN for part in parts))[np.ix_(place_N, place_N)]
    if how.block < len(completions):
        # Which products are known must not depend on which completions were drawn, or
        # those that are known would be no fair sample: all of a block's, or none.
        gram_NN[~np.eye(len(place_N), dtype=bool)] = np.nan

    def join(parts_N: Iterable[Floats]) -> Floats:
        return np.concatenate(list(parts_N))[place_N]

    return Scores(
        gram_NN=gram_NN,
        products_N=join(part.products_N for part in parts),
        norms2={
            name: join(part.norms2[name] for part in parts) for name in parts[0].norms2
        },
        log_probs_N=join(part.log_probs_N for part in parts),
    )
