"""Every architecture: exact scores, the law that is drawn from, the reference."""

import dataclasses

import numpy as np
import pytest
import torch

from enumerated import as_completions
from models import random_policy
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.sampling import draw
from mse_lab.probe.streams import uniforms
from mse_lab.scores import module_hooks
from mse_lab.scores.module_hooks import Batch
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import Scoring, score_block
from plain_scores import PROMPT, autograd_scores, joined, random_reference, relative_gap

# Untied where nothing else is said. Norms, softmax, rotations and routers are computed in
# float32 by many of these whatever the model's precision, one completion after another in
# other orders than in a block.
EXACT = 1e-12
FLOAT32 = 1e-6
TOLERANCE = {"qwen2": EXACT, "qwen3": EXACT, "llama": EXACT, "mistral": EXACT,
             "gemma": FLOAT32, "gemma2": FLOAT32, "gemma3_text": FLOAT32, "gpt2": EXACT,
             "phi3": EXACT, "olmo2": EXACT, "smollm3": EXACT, "qwen3_moe": EXACT,
             "mixtral": EXACT, "gpt_oss": EXACT, "deepseek_v3": FLOAT32,
             "jetmoe": EXACT, "qwen3_next": FLOAT32, "lfm2": EXACT, "falcon": EXACT,
             "opt": EXACT, "gpt_neox": EXACT, "stablelm": EXACT, "cohere2": FLOAT32,
             "granite": EXACT, "openai-gpt": EXACT, "mamba": FLOAT32, "mamba2": FLOAT32,
             "bamba": EXACT, "jamba": EXACT, "recurrent_gemma": FLOAT32}  # fmt: skip
TIED = {"gemma", "gemma2", "gemma3_text", "gpt2", "smollm3", "cohere2", "granite", "opt",
        "openai-gpt"}  # fmt: skip

COMPLETIONS = as_completions([[4, 5, 6, 1], [3, 7, 1], [2], [8, 9, 10, 3, 1]])
WAYS = {
    "whole": Scoring(4),
    "parts of layers": Scoring(4, layer=3),
    "sliced": Scoring(4, sliced=True),
}


def policy_of(architecture, **options):
    return random_policy(architecture, tied=architecture in TIED, **options)


def gaps(policy, expected, how=None):
    """Relative differences to autograd of the Gram matrix, products and squared norms."""
    reference = random_reference(policy)
    found = score_block(policy, PROMPT, COMPLETIONS, reference, how=how)
    norms2 = sum(found.norms2.values())
    return max(
        relative_gap(found.gram_NN, expected @ expected.T),
        relative_gap(found.products_N, expected @ joined(reference)),
        relative_gap(norms2, (expected**2).sum(1)),
    )


@pytest.mark.parametrize("architecture", TOLERANCE)
def test_scores_equal_autograd(architecture):
    policy = policy_of(architecture)
    expected = autograd_scores(policy, COMPLETIONS)
    ways = [way for way in WAYS if (architecture, way) != ("opt", "sliced")]
    found = {way: gaps(policy, expected, WAYS[way]) for way in ways}
    assert max(found.values()) < TOLERANCE[architecture], found


@pytest.mark.parametrize("architecture", TOLERANCE)
def test_the_law_drawn_is_the_law_differentiated(architecture):
    """With windows shorter than the prompt, and states other than keys and values."""
    policy = policy_of(architecture, ends=(1, 2, 5, 8))
    policy = dataclasses.replace(policy, temperature=9.0)  # of any length
    drawn = draw(policy, PROMPT, uniforms(0, "a", "replicate", range(7), 6), "a")
    assert drawn.lengths_N.min() < drawn.lengths_N.max()  # some leave the batch early
    recomputed = sequence_log_probs(policy, PROMPT, drawn).double().numpy()
    np.testing.assert_allclose(recomputed, drawn.log_probs_N, rtol=0, atol=1e-4)


@pytest.mark.parametrize("architecture", TOLERANCE)
def test_reference_equals_autograd(architecture):
    policy = policy_of(architecture)
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    found, _ = weighted_gradient(policy, PROMPT, COMPLETIONS, weights)
    expected = weights @ autograd_scores(policy, COMPLETIONS)
    assert relative_gap(joined(found), expected) < 1e-5


@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm"])
def test_fused_kernels_of_experts(experts):
    """What transformers runs experts with by default, in float32."""
    options = {"experts_implementation": experts, "moe_intermediate_size": 8}
    policy = policy_of("qwen3_moe", dtype=torch.float32, **options)
    assert gaps(policy, autograd_scores(policy, COMPLETIONS)) < 1e-4


def test_flattened_tokens_of_another_order_would_be_seen(monkeypatch):
    """Negative control: experts' tokens taken as those of other completions."""

    def split(self, tensor):
        found = plain(self, tensor)
        return found if tensor.dim() != 2 or found is None else found.flip(0)

    plain = Batch.split
    monkeypatch.setattr(Batch, "split", split)
    policy = policy_of("qwen3_moe")
    assert gaps(policy, autograd_scores(policy, COMPLETIONS)) > 0.01


def test_a_result_computed_from_another_would_be_seen(monkeypatch):
    """Negative control: a router's logits are a result, and so are weights from them."""
    plain = module_hooks._expose
    monkeypatch.setattr(
        module_hooks, "_expose", lambda call, _, *rest: plain(call, False, *rest)
    )
    policy = policy_of("qwen3_moe")
    assert gaps(policy, autograd_scores(policy, COMPLETIONS)) > 0.01
