"""Measure corrections of an engine's mismatch on supplied completions.

A block's completions are scored once for W, and once more for each token correction, with
a weight for every token's log-probability: U = sum_t c(rho_t) grad log pi(y_t). Sequence
corrections are multiples of W and need no pass. Equal completions with equal weights share
a pass, as all token corrections of a completion do where no ratio exceeds a bound.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.measurement.memory import attempt
from mse_lab.measurement.prompt import CompletionPool, draw_pool
from mse_lab.measurement.subject import Subject
from mse_lab.mse.corrections import CORRECTIONS, CorrectedPrompt, PairMeans, pair_means
from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.log_probabilities import token_log_probs
from mse_lab.policy.supplied_completions import POOLS
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.score_block import Scoring, score_block

# Completions of a block, all of whose products with one another are computed.
BLOCK = 16

# The pass that gives each correction; pass 0 is that of W itself.
_OF_TOKENS = [correction for correction in CORRECTIONS if correction.per_token]
PASSES = [
    1 + _OF_TOKENS.index(correction) if correction.per_token else 0
    for correction in CORRECTIONS
]


class Block(NamedTuple):
    """Completions of a block: their rewards, and log rho_t of each token, (N, T)."""

    drawn: Completions
    rewards_N: Floats
    log_ratios_NT: Floats

    def part(self, rows: slice) -> "Block":
        """Give some of the completions."""
        return Block(self.drawn[rows], self.rewards_N[rows], self.log_ratios_NT[rows])

    @property
    def own_NT(self) -> Floats:
        """1 for tokens that the policy drew, else 0, (N, T)."""
        return self.drawn.own_NT(self.log_ratios_NT.shape[1]).astype(float)

    @property
    def token_weights_FNT(self) -> Floats:
        """The weight that each correction gives to a token, (F, N, T)."""
        whole_N1 = self.log_ratios_NT.sum(1, keepdims=True)
        ones_NT, each = np.ones_like(self.log_ratios_NT), self.log_ratios_NT
        return np.stack(
            [
                ones_NT * correction.weigh(each if correction.per_token else whole_N1)
                for correction in CORRECTIONS
            ]
        )


def _read_block(subject: Subject, index: int, pools: Sequence[CompletionPool]) -> Block:
    """Read a prompt's completions, with log pi - log mu of each token."""
    supplied, name = subject.supplied, subject.prompts[index].id
    assert supplied is not None  # an engine's completions are supplied
    drawn = concatenate([pool.completions for pool in pools])
    positions = drawn.tokens_NT.shape[1]
    engine_NT = np.concatenate(
        [supplied.engine_log_probs(name, pool.name, positions) for pool in pools]
    )
    policy_NT = attempt(
        subject.memory.reference, lambda most: _log_probs_of(subject, index, drawn, most)
    )
    ratios_NT = np.where(drawn.own_NT(positions), policy_NT - engine_NT, 0.0)
    return Block(drawn, np.concatenate([pool.rewards_N for pool in pools]), ratios_NT)


def _log_probs_of(subject: Subject, index: int, drawn: Completions, most: int) -> Floats:
    log_probs_NT = np.zeros(drawn.tokens_NT.shape)
    for part in (slice(at, at + most) for at in range(0, len(drawn), most)):
        each = token_log_probs(subject.policy, subject.tokens[index], drawn[part])
        log_probs_NT[part, : each.shape[1]] = each.double().cpu().numpy()
    return log_probs_NT


def score_corrections(
    subject: Subject, index: int, block: Block
) -> tuple[Floats, list[Floats]]:
    """Score a block by each correction: products (F, F, N, N) and leave-one-out gradients.

    The products are <U_i, U'_j> of any two corrections; a gradient is (D,) or its sketch.
    """
    weights_FNT, count = block.token_weights_FNT, len(block.drawn)
    passes = [np.ones_like(block.log_ratios_NT), *weights_FNT[np.array(PASSES) > 0]]
    rows = concatenate([replace(block.drawn, weights_NT=each) for each in passes])
    # A sequence correction gives all tokens the same weight.
    factors_FN = np.where(np.array(PASSES)[:, None], 1.0, weights_FNT[..., 0])
    apart_N = (block.rewards_N - block.rewards_N.mean()) / (count - 1)
    weights_FR = np.zeros((len(CORRECTIONS), len(passes), count))
    weights_FR[range(len(CORRECTIONS)), PASSES] = factors_FN * apart_N

    def act(how: Scoring) -> tuple[Floats, list[Floats]]:
        # New sums for each attempt: a pass that runs out of memory leaves parts of them.
        sums = [
            Weighted(each.ravel(), subject.keeper(len(CORRECTIONS))) for each in weights_FR
        ]
        together = how._replace(block=len(rows))
        policy, tokens = subject.policy, subject.tokens[index]
        scores = score_block(policy, tokens, rows, None, how=together, weighted=sums)
        return scores.gram_NN, [total.keeper.vector.astype(float) for total in sums]

    gram_RR, gradients = attempt(subject.memory.scoring, act)
    gram = gram_RR.reshape(len(passes), count, len(passes), count).swapaxes(1, 2)
    gram_FFNN = gram[np.ix_(PASSES, PASSES)] * factors_FN[:, None, :, None]
    return gram_FFNN * factors_FN[:, None, :], gradients


def correct(subject: Subject, index: int) -> CorrectedPrompt:
    """Measure all corrections on the completions of both pools of a prompt."""
    pool = subject.probe.pool
    pools = [draw_pool(subject, index, name, range(getattr(pool, name))) for name in POOLS]
    whole = _read_block(subject, index, pools)
    parts = np.array_split(np.arange(len(whole.drawn)), -(-len(whole.drawn) // BLOCK))
    blocks = [whole.part(slice(part[0], part[-1] + 1)) for part in parts]
    scored = [score_corrections(subject, index, block) for block in blocks]
    means = [
        pair_means(gram, block.rewards_N)
        for (gram, _), block in zip(scored, blocks, strict=True)
    ]
    return _join(whole, means, np.array([gradients for _, gradients in scored]))


def _join(
    whole: Block, means: Sequence[PairMeans], gradients_RFD: Floats
) -> CorrectedPrompt:
    """Average over blocks, with the products between blocks, which are unbiased, too."""
    total_FD, count = gradients_RFD.sum(0), len(means)
    own_FF = (gradients_RFD @ gradients_RFD.swapaxes(1, 2)).sum(0)
    apart_FF = (
        np.sum([mean.apart for mean in means], axis=0) + total_FD @ total_FD.T - own_FF
    )
    own_NT, ratios_NT = whole.own_NT, whole.log_ratios_NT
    return CorrectedPrompt(
        apart_FF=apart_FF / count**2,
        linked_F=np.mean([mean.linked.diagonal() for mean in means], axis=0),
        same_F=np.mean([mean.same.diagonal() for mean in means], axis=0),
        mass_F=(whole.token_weights_FNT * own_NT).sum((1, 2)) / own_NT.sum(),
        log_ratios_N=ratios_NT.sum(1),
        divergences_N=(np.expm1(ratios_NT) - ratios_NT).sum(1),
        lengths_N=own_NT.sum(1),
        gradients_FD=total_FD / count,
    )
