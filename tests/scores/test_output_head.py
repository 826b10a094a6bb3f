"""The head in slices of the vocabulary: its logits and log-probabilities."""

import pytest
import torch

from models import random_policy
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.scores import factors
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.recorder import Recorder
from plain_scores import PROMPT, random_reference, relative_gap, some_completions


@pytest.mark.parametrize("architecture", ["qwen2", "gemma2"])
def test_logits_in_parts_are_the_logits(architecture):
    """Soft-capped after the head by one of them, and divided by the temperature."""
    policy = random_policy(architecture)
    head, tokens = SlicedHead(policy), torch.tensor([PROMPT])
    with torch.no_grad():
        whole = policy.model(tokens).logits / policy.temperature
        with head.capturing() as hidden:
            policy.model(tokens)
        parts = [head.logits(hidden[0], part)[1] for part in (slice(0, 4), slice(4, None))]
    torch.testing.assert_close(torch.cat(parts, -1), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("architecture", ["qwen2", "gemma2"])
def test_slices_change_no_log_probability(monkeypatch, architecture):
    monkeypatch.setattr(factors, "SLICE_BYTES", 500)
    policy = random_policy(architecture)
    completions, reference = some_completions(policy), random_reference(policy)
    head, recorder = SlicedHead(policy), Recorder(policy, 9, reference)
    found = head.sequence_log_probs(PROMPT, completions, 2, recorder)
    expected = sequence_log_probs(policy, PROMPT, completions)
    assert relative_gap(found.detach().numpy(), expected.detach().numpy()) < 1e-6
