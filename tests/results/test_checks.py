"""The checks on the spot, each seen red on what it is there to find."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from models import draw, random_policy
from mse_lab.data.streams import uniforms
from mse_lab.policy import sampling
from mse_lab.policy.log_probabilities import sequence_sums
from mse_lab.results.checks import (
    FALSE_ALARM,
    check_drawn_law,
    check_mean_score,
    check_rare_tokens,
    none_failed,
    summary,
)
from mse_lab.run.prompt import law_gap
from mse_lab.scores.score_block import score_block
from plain_scores import PROMPT, random_reference
from simulated import make_pools

COUNT = 2048
SOME = make_pools(1, 8, 2, 4, seed=0)


def top_p(log_probs, mass):
    """The warper of most samplers: keep the likeliest tokens up to a mass, renormalise."""
    ordered, place = log_probs.sort(descending=True)
    beyond = ordered.exp().cumsum(-1) - ordered.exp() >= mass
    kept = log_probs.masked_fill(
        torch.zeros_like(beyond).scatter(-1, place, beyond), -torch.inf
    )
    return torch.log_softmax(kept, dim=-1)


def draw_many(policy, prompt=PROMPT, count=COUNT):
    return draw(policy, prompt, uniforms(0, "a", "replicate", range(count), 6), "a")


def gap_of(policy, drawn):
    recomputed = sequence_sums(policy, PROMPT, drawn).log_probs_N.numpy()
    return law_gap(drawn.log_probs_N, recomputed, drawn.lengths_N)


@pytest.fixture(scope="module")
def policy():
    return random_policy()


def test_the_gap_is_the_largest_for_each_token():
    """0, 2/2 and 6/3 nats."""
    drawn, recomputed = np.array([-1.0, -4.0, -9.0]), np.array([-1.0, -2.0, -3.0])
    assert law_gap(drawn, recomputed, np.array([1, 2, 3])) == 2


@pytest.mark.parametrize(
    ("mass", "temperature", "passes"),
    [(None, None, True), (0.8, None, False), (0.95, None, False), (None, 1.0, False)],
    ids=["honest", "top-p 0.8", "top-p 0.95", "another temperature"],
)
def test_the_drawn_law(monkeypatch, policy, mass, temperature, passes):
    honest = sampling.next_log_probabilities
    if mass is not None:
        monkeypatch.setattr(
            sampling, "next_log_probabilities", lambda *given: top_p(honest(*given), mass)
        )
    sampler = replace(policy, temperature=temperature or policy.temperature)
    gap = gap_of(policy, draw_many(sampler))
    assert check_drawn_law([gap], "float32").ok is passes
    assert not check_drawn_law([gap, float("nan")], "float32").ok


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
    return replace(SOME, gram_PKGG=gram_PKGG)


def test_mean_score_catches_a_sampler_that_lies(monkeypatch, policy):
    """A top-p sampler that reports the untouched log-probabilities: E[W] is not 0."""
    assert check_mean_score(pools_of(policy, draw_many(policy))).ok
    honest = sampling.invert
    monkeypatch.setattr(
        sampling, "invert", lambda log_probs, *u: honest(top_p(log_probs, 0.8), *u)
    )
    drawn = draw_many(policy)
    assert check_drawn_law([gap_of(policy, drawn)], "float32").ok
    assert not check_mean_score(pools_of(policy, drawn)).ok


def test_mean_score_false_alarms_are_rare():
    """In the worst case, one direction for all scores: none of 2000 runs of four blocks."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        assert check_mean_score(blocks_of(rng.standard_normal((1, 4, 32, 1)))).ok


def test_mean_score_by_hand():
    """Two blocks of 4 scores of length 1 with products 1/2 and 1/4: q is 6/4 and 6/16."""
    off_diagonal = np.array([1 / 2, 1 / 4])[:, None, None] * (1 - np.eye(4))
    check = check_mean_score(only_gram((np.eye(4) + off_diagonal)[None]))
    q = np.array([6 / 4, 6 / 16])
    count = q.sum() ** 2 / (q**2).sum()
    bound = (stats.chi2.isf(FALSE_ALARM, count) - count) / np.sqrt(2 * count)
    np.testing.assert_allclose(check.figure, (3 + 3 / 2) / np.sqrt(q.sum()))
    np.testing.assert_allclose(check.bound, bound)


def of(scores_PKGD):
    """The products of scores."""
    return scores_PKGD @ scores_PKGD.swapaxes(-1, -2)


def blocks_of(scores_PKGD):
    return only_gram(of(scores_PKGD))


def nearly_sure(rng, prompts, rare):
    """Scores e_Y - pi of a softmax whose first of four completions is nearly sure."""
    probabilities = np.array([1 - rare, 0.6 * rare, 0.3 * rare, 0.1 * rare])
    return np.eye(4)[rng.choice(4, size=(prompts, 4, 32), p=probabilities)] - probabilities


@pytest.mark.parametrize("rare", [0.3, 0.05, 0.01, 0.001])
def test_mean_score_of_a_nearly_sure_policy_is_zero(rare):
    """Most blocks hold one completion 32 times; none of 300 runs gives an alarm."""
    rng = np.random.default_rng(0)
    for prompts in (1, 20):
        for _ in range(150):
            check = check_mean_score(blocks_of(nearly_sure(rng, prompts, rare)))
            assert check.ok is not False


def rare_ones(rng, shape, drawn, rare):
    """Scores of a policy of two completions, of which a rare one is drawn otherwise."""
    kinds = rng.choice(2, size=shape, p=[1 - drawn, drawn])
    return np.eye(2)[kinds] - np.array([1 - rare, rare])


def one_large(rng, shift):
    """One honest prompt of large scores, beside 40 others of small ones."""
    scores = rng.standard_normal((41, 4, 32, 8)) + shift
    scores[0] = 30 * (scores[0] - shift)
    return scores


def halves_apart(scores):
    """The products of blocks of which each half was scored by itself."""
    gram_PKGG = of(scores)
    gram_PKGG[..., :16, 16:] = gram_PKGG[..., 16:, :16] = np.nan
    return gram_PKGG


# Products of scores, and whether their mean passes for zero.
MEANS = {
    "rare completions three times too rare": (
        lambda rng: of(rare_ones(rng, (200, 4, 32), 0.033, 0.1)), False),
    # The figure is about 8.6 with a spread of 1, its bound 5.5. Were a block weighed by its
    # own scores, those with the rare completion would count for less: 4.3 on average.
    "a rare completion drawn thrice as often": (
        lambda rng: of(rare_ones(rng, (1000, 2, 16), 0.06, 0.02)), False),
    "one prompt of large scores": (lambda rng: of(one_large(rng, 0.0)), True),
    "small ones lie beside it": (lambda rng: of(one_large(rng, 0.2)), False),
    # The strongest violation: no product between different completions is negative.
    "all point the same way": (
        lambda rng: of(1 + 0.1 * rng.standard_normal((6, 4, 32, 131))), False),
    "halves apart": (lambda rng: halves_apart(rng.standard_normal((4, 4, 32, 3))), True),
    "halves apart lie": (
        lambda rng: halves_apart(rng.standard_normal((4, 4, 32, 3)) + 0.5), False),
    "norms alone": (
        lambda rng: np.where(np.eye(8), 1, np.nan) + np.zeros((2, 3, 8, 8)), None),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANS)
def test_mean_score(case):
    make, passes = MEANS[case]
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert check_mean_score(only_gram(make(rng))).ok is passes


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_mean_score_is_not_made_where_each_block_holds_one_completion(size):
    """As by greedy decoding: nothing can be told, so nothing is said to be well."""
    once = size * np.random.default_rng(0).standard_normal((6, 4, 1, 8))
    w = np.repeat(once, 32, axis=2)
    rounded = w.astype(np.float32) * (1 + 1e-7)
    for scores in (w, rounded.astype(float)):
        check = check_mean_score(blocks_of(scores))
        assert (check.figure, check.ok) == (None, None)


def test_laws_of_rare_tokens_add_up_over_prompts_before_their_mean():
    """Ratios e^(3 + 12) and e^-4 of two laws: log mean 15 - log 2 = 14.307 > 13.816."""
    check = check_rare_tokens(np.array([[3.0, -2.0], [12.0, -2.0]]))
    np.testing.assert_allclose([check.figure, check.bound], [14.3069, 13.8155], atol=1e-4)
    assert not check.ok
    assert check_rare_tokens(np.array([[3.0, -2.0], [11.0, -2.0]])).ok


def test_summary_names_what_failed():
    line = summary([check_drawn_law([1.0], "float32"), check_drawn_law([0.0], "float32")])
    assert line.count("FAILED") == 1
    assert line.count("ok") == 1


def test_a_check_that_cannot_be_made_neither_holds_nor_fails():
    unmade, made = check_drawn_law([], "float32"), check_drawn_law([0.0], "float32")
    assert unmade.ok is None
    assert unmade.figure is None
    assert none_failed([unmade, made])
    assert not none_failed([unmade, check_drawn_law([1.0], "float32")])
    assert summary([unmade]) == "checks: drawn law equals differentiated law not made"
