"""Tokens from elsewhere: rare ones of another law."""

import numpy as np
import pytest
import torch
from scipy import stats

from enumerated import as_completions, enumerate_policy
from models import random_policy
from mse_lab.policy import sampling as drawing
from mse_lab.policy.log_probabilities import sequence_sums
from mse_lab.results.checks import check_rare_tokens
from mse_lab.run import supplied
from mse_lab.run.supplied import FACTORS, examine_tokens
from results.test_checks import draw_many, top_p

PROMPT = [3, 4, 5, 6]


@pytest.fixture
def policy(monkeypatch):
    """One of eleven tokens, of which one or two are called rare."""
    monkeypatch.setattr(supplied, "RARE", 0.05)
    return random_policy()


def ratios_of(policy, drawn, prompt=PROMPT):
    return examine_tokens(policy, prompt, drawn)[1]


def holds(policy, drawn):
    return check_rare_tokens(ratios_of(policy, drawn)[None]).ok


def test_every_ratio_is_one_on_average(monkeypatch):
    """Over all completions of two tokens, weighted by their exact probabilities."""
    monkeypatch.setattr(supplied, "RARE", 0.2)
    policy, prompt = random_policy(vocabulary=5, ends=(1,)), PROMPT[:2]
    kept, exact = enumerate_policy(policy, prompt, 5, 2, reward=lambda tokens: 0)
    every = as_completions(kept)
    types = [every[at : at + 1] for at in range(len(every))]
    ratios = np.exp([ratios_of(policy, one, prompt) for one in types])
    assert (ratios.std(0) > 0.1).all()
    np.testing.assert_allclose(exact.probability_PC[0] @ ratios, 1, rtol=1e-10)


def test_ratios_by_hand(monkeypatch):
    """A rare token of probability 1/4, drawn four times as often: 4 / (1 + 3/4) = 16/7."""
    monkeypatch.setattr(supplied, "RARE", 0.3)
    log_probs = torch.tensor([[[0.75, 0.25]]], dtype=torch.float64).log()
    for token, expected in ((1, 16 / 7), (0, 4 / 7)):
        found = [*supplied._log_ratios(log_probs, log_probs[..., token])]
        np.testing.assert_allclose(found[FACTORS.index(4)].exp(), expected)


def test_batches_change_nothing(policy):
    drawn = draw_many(policy, PROMPT, 100)
    log_probs_NT, ratios_X = examine_tokens(policy, PROMPT, drawn)
    some_NT, some_X = examine_tokens(policy, PROMPT, drawn, most=7)
    np.testing.assert_allclose(some_NT, log_probs_NT, rtol=1e-9)
    np.testing.assert_allclose(some_X, ratios_X, rtol=1e-9)
    own_N = np.where(drawn.scored_NT(log_probs_NT.shape[1]), log_probs_NT, 0).sum(1)
    np.testing.assert_allclose(
        own_N, sequence_sums(policy, PROMPT, drawn).log_probs_N, rtol=1e-9
    )


def test_false_alarms_are_as_rare_as_promised(policy):
    """Of 100 honest samples, a mean ratio of 20 in one of twenty at most.

    So many that the binomial law with 1/20 exceeds them with probability 1e-6 are allowed.
    """
    drawn, alarms = draw_many(policy, PROMPT, 100 * 32), 0
    for start in range(0, len(drawn), 32):
        ratios = ratios_of(policy, drawn[start : start + 32])
        alarms += np.logaddexp.reduce(ratios) - np.log(len(ratios)) >= np.log(20)
    assert alarms <= stats.binom.isf(1e-6, 100, 1 / 20)
    assert holds(policy, drawn[:2048])


WARPED = {
    "top-p 0.9": lambda log_probs: top_p(log_probs, 0.9),
    "top-p 0.95": lambda log_probs: top_p(log_probs, 0.95),
    "temperature 0.7": lambda log_probs: torch.log_softmax(log_probs / 0.7, dim=-1),
    "temperature 1.3": lambda log_probs: torch.log_softmax(log_probs / 1.3, dim=-1),
}


@pytest.mark.parametrize("warp", WARPED.values(), ids=WARPED)
def test_another_law_is_caught(monkeypatch, policy, warp):
    honest = drawing.next_log_probabilities
    with monkeypatch.context() as patched:
        warped = lambda *given: warp(honest(*given))  # noqa: E731
        patched.setattr(drawing, "next_log_probabilities", warped)
        drawn = draw_many(policy, PROMPT)
    assert not holds(policy, drawn)


def test_completions_of_another_model_are_caught(policy):
    assert not holds(policy, draw_many(random_policy(tied=False), PROMPT))
