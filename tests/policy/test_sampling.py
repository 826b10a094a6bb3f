"""Sampling: from exactly the policy, whatever the batch."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from transformers.cache_utils import DynamicLayer

from enumerated import enumerate_policy
from models import random_policy
from mse_lab.policy import sampling as drawing
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.sampling import draw, draw_together, invert
from mse_lab.probe.streams import uniforms

PROMPT = [3, 4, 5, 6]


def numbers(count, positions=6, pool="replicate"):
    return uniforms(0, "a", pool, range(count), positions)


def test_invert_gives_the_first_token_whose_sum_exceeds_u():
    log_probs = torch.tensor([[0.25, 0.0, 0.5, 0.25], [0.0, 1.0, 0.0, 0.0]]).log()
    # Sums 1/4, 1/4, 3/4, 1; token 1 has probability 0 and is never given.
    u = torch.tensor([0.0, 0.9, 0.2499, 0.25, 0.7499, 0.0, 0.9999], dtype=torch.float64)
    row = torch.tensor([0, 1, 0, 0, 0, 1, 0])
    assert invert(log_probs, u, row).tolist() == [0, 1, 0, 2, 2, 1, 3]


def test_log_probs_are_those_of_the_differentiated_policy():
    policy = random_policy()
    drawn = draw(policy, PROMPT, numbers(20), "a")
    recomputed = sequence_log_probs(policy, PROMPT, drawn)
    np.testing.assert_allclose(drawn.log_probs_N, recomputed.numpy(), rtol=1e-9)


def test_batches_and_numbers_do_not_matter():
    policy = random_policy()
    whole = draw(policy, PROMPT, numbers(20), "a")
    split = draw(policy, PROMPT, numbers(20), "a", max_batch=3)
    part = draw(policy, PROMPT, numbers(20)[7:9], "a")
    np.testing.assert_array_equal(whole.lengths_N, split.lengths_N)
    for one, other in ((split, whole), (part, whole[7:9])):
        for row in range(len(one)):
            length = one.lengths_N[row]
            np.testing.assert_array_equal(
                one.tokens_NT[row, :length], other.tokens_NT[row, :length]
            )


@pytest.mark.parametrize("length", [1, 4])
def test_prompts_that_are_drawn_together_have_the_completions_of_each_alone(length):
    """Of a prompt of one token nothing is shared beforehand."""
    policy, prompts = random_policy(), [PROMPT, [6, 3, 3, 5], [4, 4, 6, 3]]
    prompts = [prompt[:length] for prompt in prompts]
    each = np.stack([uniforms(0, name, "evaluation", range(20), 6) for name in "abc"])
    together = draw_together(policy, prompts, each)
    for prompt, numbers_NT, found in zip(prompts, each, together, strict=True):
        alone = draw(policy, prompt, numbers_NT, "a")
        np.testing.assert_array_equal(found.lengths_N, alone.lengths_N)
        assert [t.tolist() for t in found.unpadded] == [t.tolist() for t in alone.unpadded]


@pytest.mark.parametrize("held", [0, 3])
def test_keys_with_room_are_those_without(monkeypatch, held):
    """Through several rooms, and rows that leave and are repeated."""
    monkeypatch.setattr(drawing, "ROOM", 2)
    generator = torch.Generator().manual_seed(0)
    plain = DynamicLayer()
    if held:
        plain.update(*torch.randn(2, 1, 2, held, 4, generator=generator))
    going_on = [None, [0, 0, 0], None, None, None, [0, 2], [1, 0], None, None]
    roomy = drawing._BufferedLayer(plain, held + len(going_on))
    rows = 1
    for parents in going_on:
        rows = len(parents or range(rows))
        states = torch.randn(2, rows, 2, 1, 4, generator=generator)
        found = []
        for layer in (roomy, plain):
            if parents:
                layer.reorder_cache(torch.tensor(parents))
            found.append(torch.stack(layer.update(*states)))
        assert torch.equal(*found)
    assert roomy.get_seq_length() == held + len(going_on)
    assert roomy.keys._base.shape[-2] == held + len(going_on)  # and no room beyond


def test_those_that_begin_alike_are_one_row_until_they_part(monkeypatch):
    """Every step reads as many rows as there are distinct beginnings still unfinished."""
    policy = random_policy()
    honest, rows = drawing.next_log_probabilities, []

    def counted(policy, tokens_N1, cache):
        rows.append(len(tokens_N1))
        return honest(policy, tokens_N1, cache)

    monkeypatch.setattr(drawing, "next_log_probabilities", counted)
    drawn = draw(policy, PROMPT, numbers(200), "a")
    beginnings = [
        {tuple(own[:step]) for own in drawn.unpadded if len(own) > step}
        for step in range(6)
    ]
    assert rows == [len(distinct) for distinct in beginnings]
    assert rows[0] == 1
    assert rows[1] < 200 == len(drawn)


def test_length_is_where_the_first_end_token_stands():
    """Either end token ends; token 0, the pad id, is drawn like any other."""
    drawn = draw(random_policy(ends=(1, 2)), PROMPT, numbers(300), "a")
    padded = 0
    for tokens, length, ended in zip(
        drawn.tokens_NT, drawn.lengths_N, drawn.ended_N, strict=True
    ):
        own = tokens[:length]
        assert not np.isin(own[:-1], (1, 2)).any()
        assert ended == np.isin(own[-1], (1, 2))
        assert ended or length == 6
        padded += (own[:-1] == 0).any()
    assert {
        int(t[n - 1]) for t, n in zip(drawn.tokens_NT, drawn.lengths_N, strict=True)
    } >= {1, 2}
    assert padded


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_enumerated_probabilities(temperature):
    """Chi-square on all completions of two tokens; false alarm 1e-6 for each case."""
    policy = random_policy(vocabulary=5, ends=(1,))
    policy = replace(policy, temperature=temperature)
    prompt, count = [3, 4, 2], 4000
    exact = enumerate_policy(policy, prompt, 5, 2, reward=lambda tokens: 0)
    drawn = draw(policy, prompt, numbers(count, positions=2), "a")
    found = Counter(
        tuple(tokens[:length].tolist())
        for tokens, length in zip(drawn.tokens_NT, drawn.lengths_N, strict=True)
    )
    observed = np.array([found[tokens] for tokens in exact.completions])
    expected = count * exact.probabilities
    assert observed.sum() == count
    frequent = expected >= 5
    observed = np.append(observed[frequent], observed[~frequent].sum())
    expected = np.append(expected[frequent], expected[~frequent].sum() + 1e-9)
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, len(expected) - 1) > 1e-6
