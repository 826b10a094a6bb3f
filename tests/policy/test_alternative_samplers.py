"""Rival laws: never likelier than the policy where it draws, likelier where it does not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from enumerated import as_completions, enumerate_policy
from models import random_policy
from mse_lab.policy import alternative_samplers
from mse_lab.policy import sampling as drawing
from mse_lab.policy.alternative_samplers import (
    ALTERNATIVES,
    REPEATS,
    copying,
    describe_mismatch,
    log_likelihood_ratios,
    tilted,
)
from mse_lab.policy.completions import concatenate
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.sampling import draw
from mse_lab.probe.streams import uniforms
from mse_lab.results.checks import check_alternative_samplers
from results.test_checks import top_p

PROMPT, OTHER = [3, 4, 5, 6], [3, 7, 5, 6]


@pytest.fixture(scope="module")
def policy():
    return random_policy()


def draw_many(policy, prompt=PROMPT, count=2048):
    return draw(policy, prompt, uniforms(0, "a", "replicate", range(count), 6), "a")


def ratios_of(policy, drawn, prompt=PROMPT):
    log_probs_N = sequence_log_probs(policy, prompt, drawn).numpy()
    return log_likelihood_ratios(policy, prompt, drawn, log_probs_N)


def holds(policy, drawn):
    return check_alternative_samplers(ratios_of(policy, drawn)[None]).ok


def test_every_ratio_is_one_on_average():
    """Over all completions of two tokens, weighted by their exact probabilities."""
    policy, prompt = random_policy(vocabulary=5, ends=(1,)), PROMPT[:2]
    exact = enumerate_policy(policy, prompt, 5, 2, reward=lambda tokens: 0)
    every = as_completions(exact.completions)
    types = [every[at : at + 1] for at in range(len(every))]
    ratios = np.exp([ratios_of(policy, one, prompt) for one in types])
    np.testing.assert_allclose(exact.probabilities @ ratios, 1, rtol=1e-10)
    # That of a copy is, given what came before it.
    log_probs, before = np.log(exact.probabilities), [0, 3, 0]
    earlier = concatenate([types[index] for index in before])
    for share in REPEATS:
        totals = [
            copying(concatenate([earlier, one]), log_probs[[*before, index]], share)
            for index, one in enumerate(types)
        ]
        added = np.array(totals) - copying(earlier, log_probs[before], share)
        np.testing.assert_allclose(exact.probabilities @ np.exp(added), 1, rtol=1e-10)


def test_ratios_by_hand():
    # Of two equal completions of probability 1/4: 0.7 + 0.3 * 1/1 / 0.25 = 1.9.
    ratio = copying(as_completions([(2, 1), (2, 1)]), np.log([0.25, 0.25]), 0.3)
    np.testing.assert_allclose(np.exp(ratio), 1.9)
    log_probs = torch.tensor([[[0.75, 0.25]]], dtype=torch.float64).log()
    ratios = tilted(log_probs, torch.tensor([[0]]), (1,)).exp()
    # Half the temperature squares probabilities: q = (9, 1)/10 of pi = (3, 1)/4.
    half = ALTERNATIVES.index("0.5 times the temperature")
    np.testing.assert_allclose(ratios[half], 0.9 / 0.75)
    # End tokens four times as often: 3/(3 + 4) of token 0, over 3/4.
    often = ALTERNATIVES.index("end tokens 4.0 times as often")
    np.testing.assert_allclose(ratios[often], (3 / 7) / (3 / 4))


def test_batches_change_nothing_and_only_copies_are_sought_in_all(monkeypatch, policy):
    drawn = draw_many(policy)
    whole, tilts = ratios_of(policy, drawn), len(ALTERNATIVES) - len(REPEATS)
    monkeypatch.setattr(alternative_samplers, "LOGITS", 500)
    np.testing.assert_allclose(ratios_of(policy, drawn), whole, rtol=1e-9)
    monkeypatch.setattr(alternative_samplers, "EXAMINED", 1000)
    some = ratios_of(policy, drawn)
    assert not np.allclose(some[:tilts], whole[:tilts])
    np.testing.assert_array_equal(some[tilts:], whole[tilts:])


def test_false_alarms_are_as_rare_as_promised(policy):
    """Of 100 honest samples, a mean ratio of 20 in one of twenty at most.

    So many that the binomial law with 1/20 exceeds them with probability 1e-6 are allowed.
    """
    drawn = draw_many(policy, count=100 * 32)
    alarms = 0
    for start in range(0, len(drawn), 32):
        ratios = ratios_of(policy, drawn[start : start + 32])
        alarms += np.logaddexp.reduce(ratios) - np.log(len(ratios)) >= np.log(20)
    assert alarms <= stats.binom.isf(1e-6, 100, 1 / 20)
    assert holds(policy, drawn[:2048])


def top_k(log_probs, count):
    lowest = log_probs.topk(count).values[:, -1:]
    return torch.log_softmax(log_probs.masked_fill(log_probs < lowest, -torch.inf), -1)


def never_ending(log_probs):
    ends = torch.isin(torch.arange(log_probs.shape[-1]), torch.tensor([1, 2]))
    return torch.log_softmax(log_probs.masked_fill(ends, -torch.inf), -1)


WARPED = {
    "top-p 0.9": lambda log_probs: top_p(log_probs, 0.9),
    "top-p 0.95": lambda log_probs: top_p(log_probs, 0.95),
    "top-k 5": lambda log_probs: top_k(log_probs, 5),
    "temperature 0.7": lambda log_probs: torch.log_softmax(log_probs / 0.7, dim=-1),
    "temperature 1.3": lambda log_probs: torch.log_softmax(log_probs / 1.3, dim=-1),
    "ends ignored": never_ending,
}


@pytest.mark.parametrize("warp", WARPED.values(), ids=WARPED)
def test_another_law_is_caught(monkeypatch, policy, warp):
    honest = drawing.next_log_probabilities
    with monkeypatch.context() as patched:
        warped = lambda *given: warp(honest(*given))  # noqa: E731
        patched.setattr(drawing, "next_log_probabilities", warped)
        drawn = draw_many(policy)
    assert not holds(policy, drawn)


OTHERS = {
    "another prompt": lambda policy: draw_many(policy, OTHER),
    "another model": lambda policy: draw_many(random_policy(tied=False)),
    # As where a trainer leaves out the completions that were cut.
    "those that ended": lambda policy: (drawn := draw_many(policy))[
        np.flatnonzero(drawn.ended_N)
    ],
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_other_completions_are_caught(policy, others):
    assert not holds(policy, others(policy))


def test_the_same_draws_twice_are_caught(policy):
    """As a sampler gives them that is called twice with one seed; completions are long."""
    long = replace(policy, end_tokens=(1,), temperature=2.0)
    drawn = draw_many(long, count=32)
    assert holds(long, drawn)
    assert not holds(long, concatenate([drawn, drawn]))


def test_the_warning_names_the_alternative():
    ratios_PR = np.zeros((2, len(ALTERNATIVES)))
    ratios_PR[:, 2] = 20
    words = describe_mismatch(ratios_PR)
    assert ALTERNATIVES[2] in words
    assert "e^40" in words
