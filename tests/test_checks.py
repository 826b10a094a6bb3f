"""The checks on the spot, each seen red on what it is there to find."""

import numpy as np
import pytest
import torch
from models import random_policy
from test_scores import PROMPT, random_reference

from mse_lab import completions, scores
from mse_lab.checks import check_drawn_law, check_mean_score, law_gap, summary
from mse_lab.completions import draw
from mse_lab.invariance import score_difference
from mse_lab.pools import Pools
from mse_lab.scores import score_block, sequence_log_probs
from mse_lab.streams import uniforms

COUNT = 2048


def top_p(log_probs, mass):
    """The warper of most samplers: keep the likeliest tokens up to a mass, renormalise."""
    ordered, place = log_probs.sort(descending=True)
    beyond = ordered.exp().cumsum(-1) - ordered.exp() >= mass
    kept = log_probs.masked_fill(
        torch.zeros_like(beyond).scatter(-1, place, beyond), -torch.inf
    )
    return torch.log_softmax(kept, dim=-1)


def draw_many(policy):
    return draw(policy, PROMPT, uniforms(0, "a", "replicate", range(COUNT), 6), "a")


def gap_of(policy, drawn):
    recomputed = sequence_log_probs(policy, PROMPT, drawn).numpy()
    return law_gap(drawn.log_probs_N, recomputed, drawn.lengths_N)


@pytest.fixture(scope="module")
def policy():
    return random_policy(batch=COUNT)


def test_honest_sampling_passes(policy):
    assert check_drawn_law([gap_of(policy, draw_many(policy))], "float32").ok


@pytest.mark.parametrize("mass", [0.8, 0.95])
def test_top_p_sampling_is_caught(monkeypatch, policy, mass):
    honest = completions.next_log_probabilities
    monkeypatch.setattr(
        completions, "next_log_probabilities", lambda *given: top_p(honest(*given), mass)
    )
    assert not check_drawn_law([gap_of(policy, draw_many(policy))], "float32").ok


def test_wrong_temperature_is_caught(policy):
    warmer = type(policy)(**{**vars(policy), "temperature": 1.0})
    assert not check_drawn_law([gap_of(policy, draw_many(warmer))], "float32").ok


def test_nan_is_caught():
    assert not check_drawn_law([float("nan")], "float32").ok


def pools_of(policy, drawn, block=64):
    """Score the completions in blocks, as pools of one prompt."""
    reference = random_reference(policy)
    starts = range(0, len(drawn), block)
    blocks = [
        score_block(policy, PROMPT, drawn[at : at + block], reference) for at in starts
    ]
    return only_gram(np.stack([one.gram_NN for one in blocks])[None])


def only_gram(gram_PKGG):
    """Pools of which nothing but the Gram blocks matters."""
    prompts, blocks, size, _ = gram_PKGG.shape
    zeros_PN = np.zeros((prompts, blocks * size))
    return Pools(
        rewards_PN=zeros_PN,
        lengths_PN=zeros_PN.astype(int),
        gram_PKGG=gram_PKGG,
        products_PN=zeros_PN,
        reference_rewards_PN=zeros_PN,
        reference_product_P=zeros_PN[:, 0],
        reference_distance2_P=zeros_PN[:, 0],
        between_PP=np.zeros((prompts, prompts)),
        halves_PP=np.zeros((prompts, prompts)),
        kind_norms2_PNM=zeros_PN[..., None],
        kind_products_PM=zeros_PN[:, :1],
    )


def test_mean_score_of_the_policy_is_zero(policy):
    assert check_mean_score(pools_of(policy, draw_many(policy))).ok


def test_mean_score_catches_a_sampler_that_lies(monkeypatch, policy):
    """A top-p sampler that reports the untouched log-probabilities: E[W] is not 0."""
    warped = top_p
    monkeypatch.setattr(
        completions, "invert", lambda log_probs, u: honest_invert(warped(log_probs, 0.8), u)
    )
    drawn = draw_many(policy)
    assert check_drawn_law([gap_of(policy, drawn)], "float32").ok
    assert not check_mean_score(pools_of(policy, drawn)).ok


honest_invert = completions.invert


def test_mean_score_false_alarms_are_rare():
    """In the worst case, one direction for all scores: none of 2000 runs of four blocks."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        w = rng.standard_normal((1, 4, 32, 1))
        assert check_mean_score(only_gram(w @ w.swapaxes(-1, -2))).ok


def test_scores_alone_padded_and_batched_agree(policy):
    block = draw_many(policy)[:8]
    reference = random_reference(policy)
    scored = score_block(policy, PROMPT, block, reference)
    assert score_difference(policy, PROMPT, block, reference, scored) < 1e-5


def test_a_use_that_the_hooks_miss_is_caught(monkeypatch, policy):
    """Biases left out of the linear rule: plain autograd tells."""
    whole = scores._RULES[torch.nn.Linear]

    def without_bias(module, x, d):
        found = whole(module, x, d)
        return {**found, "bias": scores.Dense(0 * found["bias"].values)}

    monkeypatch.setitem(scores._RULES, torch.nn.Linear, without_bias)
    block = draw_many(policy)[:8]
    reference = random_reference(policy)
    scored = score_block(policy, PROMPT, block, reference)
    assert score_difference(policy, PROMPT, block, reference, scored) > 5e-3


def test_summary_names_what_failed():
    line = summary([check_drawn_law([1.0], "float32"), check_drawn_law([0.0], "float32")])
    assert line.count("FAILED") == 1
    assert line.count("ok") == 1
