"""The prompt's part of a pass: shared where it is keys and values, else read anew."""

import pytest
import torch

from models import random_policy
from mse_lab.policy.shared_prefix import SharedPrefix, completion_logits

PROMPT = [3, 4, 5, 6]
TOKENS = torch.tensor([[4, 5, 6], [3, 7, 1]])


@pytest.mark.parametrize(
    ("architecture", "shared"),
    [
        ("qwen2", True),
        ("gemma3_text", True),
        ("openai-gpt", False),
        ("mamba", False),
        ("bamba", False),
        ("lfm2", False),
    ],
)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1]], ids=["prompt", "one token"])
def test_logits_are_those_of_the_whole_text(architecture, shared, prompt):
    policy = random_policy(architecture)
    prefix = SharedPrefix(policy, prompt)
    assert (prefix.cache is not None) is shared
    assert bool(prefix.tensors()) is (shared and len(prompt) > 1)
    found = completion_logits(policy, prefix, TOKENS)
    whole = torch.cat([torch.tensor(prompt).expand(2, -1), TOKENS], dim=1)
    expected = policy.model(whole, use_cache=False).logits[:, len(prompt) - 1 : -1]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_cache_that_the_model_leaves_empty_is_not_used():
    policy = random_policy("qwen2")
    forward = policy.model.forward

    def forgetful(tokens, past_key_values=None, **options):
        return forward(tokens, **options | {"use_cache": False})

    policy.model.forward = forgetful
    prefix = SharedPrefix(policy, PROMPT)
    assert prefix.cache is None
    whole = torch.cat([torch.tensor(PROMPT).expand(2, -1), TOKENS], dim=1)
    expected = forward(whole).logits[:, len(PROMPT) - 1 : -1]
    torch.testing.assert_close(completion_logits(policy, prefix, TOKENS), expected)
