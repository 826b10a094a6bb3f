"""Log-probabilities: two ways to one number, and the gradient that is written by hand."""

import pytest
import torch

from enumerated import as_completions
from models import random_policy
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    _token_log_probs,
    completion_log_probs,
    completion_logits,
    sequence_log_probs,
    sum_over_tokens,
)

PROMPT = [3, 4, 5]
ENDED = as_completions([(4, 1), (5, 6, 7)])


def test_the_gradient_of_a_token_is_autograds():
    logits = torch.arange(30.0).double().sin().reshape(2, 3, 5).requires_grad_()
    tokens = torch.tensor([[0, 4, 2], [1, 1, 3]])
    weights = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]]).double()
    expected = torch.log_softmax(logits, -1).gather(-1, tokens[..., None])[..., 0]
    found = _token_log_probs(logits, tokens)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad((weights * found).sum(), logits),
        torch.autograd.grad((weights * expected).sum(), logits),
    )


def test_a_sum_ends_with_its_completion():
    """What follows the end token counts nothing, NaN neither."""
    log_probs = torch.tensor([[-1.0, -2.0, torch.nan], [-1.0, -2.0, -4.0]])
    assert sum_over_tokens(log_probs, ENDED).tolist() == [-3.0, -7.0]
    several = sum_over_tokens(torch.stack([log_probs, 2 * log_probs]), ENDED)
    assert several.tolist() == [[-3.0, -7.0], [-6.0, -14.0]]


def test_whole_sequences_and_a_shared_prompt_give_the_same():
    policy = random_policy()
    whole = sequence_log_probs(policy, PROMPT, ENDED)
    after = completion_log_probs(policy, SharedPrefix(policy, PROMPT), ENDED)
    torch.testing.assert_close(whole, after)
    torch.testing.assert_close(whole, sequence_log_probs(policy, PROMPT, ENDED, padding=2))
    inputs = torch.tensor([[*PROMPT, *ENDED.tokens_NT[1]]])
    log_probs = policy.log_probabilities(policy.logits(inputs, kept=4))[0, :3]
    torch.testing.assert_close(whole[1], log_probs.gather(-1, inputs[0, 3:, None]).sum())


LONGER = [3, 4, 5, 6]
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
@pytest.mark.parametrize("prompt", [LONGER, LONGER[:1]], ids=["prompt", "one token"])
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
    prefix = SharedPrefix(policy, LONGER)
    assert prefix.cache is None
    whole = torch.cat([torch.tensor(LONGER).expand(2, -1), TOKENS], dim=1)
    expected = forward(whole).logits[:, len(LONGER) - 1 : -1]
    torch.testing.assert_close(completion_logits(policy, prefix, TOKENS), expected)
