"""Sample a prompt: draw a block of few completions, and measure what an advice needs.

One pass gives norms, inner products and the prompt's gradient, so there is no reference.
The completions are a pool of their own. What they say decides when the advice stops, so a
run that used them again would be measured on completions chosen to agree with the advice.
A run's pools have other uniform numbers, so that it verifies the advice independently.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.data.streams import stream
from mse_lab.mse.one_pool import (
    FOLDED,
    SKETCHED,
    PromptSample,
    choose_scored,
    fold,
    kept_weights,
)
from mse_lab.policy.completions import Completions
from mse_lab.results.measurement import SampledPrompt
from mse_lab.run.looks import MOST_SCORED
from mse_lab.run.loop import Batch
from mse_lab.run.memory import attempt
from mse_lab.run.prompt import CompletionPool, draw_pools, law_gap, refuse_scores, summarise
from mse_lab.run.subject import Subject
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.reference import add_weighted_gradients
from mse_lab.scores.score_block import Scores, Scoring, score_block
from mse_lab.scores.sketches import Keeper, Sketch, Whole

POOL = "advice"


def _keeper(subject: Subject) -> Keeper:
    """Make what keeps a sum of scores: whole, if it is short, or as a sketch."""
    policy = subject.policy
    if policy.size <= FOLDED:
        return Whole(policy.parameters)
    return Sketch(policy.parameters, subject.probe.seed, SKETCHED)


def kept_bytes(parameters: int, blocks: Iterable[int]) -> int:
    """Bound the bytes of blocks of so many completions: no two rewards may be equal."""
    gradient, inner = SKETCHED, FOLDED
    if parameters <= FOLDED:
        gradient = inner = parameters
    return sum(4 * (gradient + count * inner) + 8 * count**2 for count in blocks)


def _score(
    subject: Subject, index: int, scored: Completions, weights_MK: Floats
) -> tuple[Scores, NDArray[np.float32]]:
    """Score completions in one block; also give their M weighted sums, or sketches."""

    def act(how: Scoring) -> tuple[Scores, NDArray[np.float32]]:
        # New sums for each attempt: a pass that runs out of memory leaves parts of them.
        weighted = [Weighted(weights_K, _keeper(subject)) for weights_K in weights_MK]
        policy, tokens = subject.policy, subject.tokens[index]
        scores = score_block(policy, tokens, scored, None, how=how, weighted=weighted)
        return scores, np.stack([one.keeper.vector for one in weighted])

    return subject.memory.score(act)


def _gradient_gap(
    subject: Subject, index: int, scored: Completions, weights_K: Floats
) -> float:
    """Compare the gradient with that of autograd, which knows every use of a parameter."""
    if not weights_K.any():
        # The rewards are all equal: other weights, so as not to compare zeros.
        weights_K = np.arange(1.0, len(scored) + 1)
    _, [kept_D] = _score(subject, index, scored, weights_K[None])
    policy, tokens = subject.policy, subject.tokens[index]

    def differentiate(most: int) -> NDArray[np.float32]:
        keeper = _keeper(subject)

        def add(name: str, gradient: Tensor) -> None:
            keeper.add(name, [gradient])

        add_weighted_gradients(policy, tokens, scored, weights_K, add, most)
        return keeper.vector

    plain_D = attempt(subject.memory.reference, differentiate)
    return float(np.linalg.norm(kept_D - plain_D) / np.linalg.norm(plain_D))


def sample_prompt(
    subject: Subject,
    index: int,
    start: int,
    pool: CompletionPool,
    *,
    checked: bool = False,
) -> SampledPrompt:
    """Differentiate some completions of a block, whose numbers begin at `start`.

    Where it is `checked` the gradient is compared with that of plain autograd.
    """
    rng = stream(subject.probe.seed, "scored", subject.prompts[index].id, str(start))
    scored_K = choose_scored(pool.rewards_N, MOST_SCORED, rng)
    weights_MK = kept_weights(pool.rewards_N, scored_K)
    scored = pool.completions[scored_K]
    scores, vectors_MD = _score(subject, index, scored, weights_MK)
    refuse_scores(subject, index, scores, start + scored_K)
    gap = _gradient_gap(subject, index, scored, weights_MK[0]) if checked else np.nan
    logit_norms2_N = np.full(len(pool.rewards_N), np.nan)
    logit_norms2_N[scored_K] = scores.logit_norms2_N
    sample = PromptSample(
        rewards_N=pool.rewards_N,
        scored_K=scored_K,
        gram_KK=scores.gram_NN,
        gradient_D=vectors_MD[0],
        inner_MF=fold(vectors_MD[1:]),
        lengths_N=pool.completions.lengths_N,
        logit_norms2_N=logit_norms2_N,
    )
    return SampledPrompt(
        sample,
        summarise(subject, index, [pool]),
        law_gap=law_gap(scored.log_probs_N, scores.log_probs_N, scored.lengths_N),
        gradient_gap=gap,
    )


def sample_batch(subject: Subject, batch: Batch, checked: int) -> list[SampledPrompt]:
    """Draw and reward a block of completions of each prompt; differentiate some of them.

    The result depends on the subject and the batch alone: it is the same after any other
    batch and in any process. The numbers of the completions key their uniform numbers. The
    gradient of the `checked` prompt's first block is compared with that of plain autograd.
    """
    [(start, stop)] = {(start, stop) for _, start, stop in batch}
    indices = [index for index, *_ in batch]
    pools = draw_pools(subject, indices, POOL, range(start, stop))
    return [
        sample_prompt(subject, index, start, pool, checked=(index, start) == (checked, 0))
        for index, pool in zip(indices, pools, strict=True)
    ]
