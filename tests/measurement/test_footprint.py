"""The footprint: the same on every start, and honest about the head."""

import pytest

from models import random_policy
from mse_lab.measurement.footprint import measure_footprint


def test_the_footprint_is_the_same_every_time():
    policy = random_policy()
    assert measure_footprint(policy, [3, 4], 2) == measure_footprint(policy, [3, 4], 2)


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "gemma2"])
def test_heads_can_be_sliced(architecture):
    """Gemma 2 caps its logits after the head: the model's own code is run on slices."""
    policy = random_policy(architecture)
    assert measure_footprint(policy, [3, 4, 5], 2).sliceable


def test_a_head_that_mixes_logits_is_not_sliced():
    """Negative control: what is done after the head must be done to each logit alone."""
    policy = random_policy()
    whole = policy.model.forward

    def centred(*args, **options):
        output = whole(*args, **options)
        output.logits = output.logits - output.logits.amax(-1, keepdim=True) ** 2
        output.logits = output.logits * output.logits.shape[-1]
        return output

    policy.model.forward = centred
    assert not measure_footprint(policy, [3, 4, 5], 2).sliceable


def test_what_layers_take_in_and_keep():
    """Of 2 equal layers, of 16 numbers a token; 4 of the 5 tokens are fed, in float64.

    A layer's factors, in float32, are inputs and outputs of its two norms, 2 x (16 + 16)
    numbers a token, and of its linear maps.
    """
    policy = random_policy()
    found = measure_footprint(policy, [3, 4, 5], 2)
    assert found.inputs == 2 * 16 * 4 * 8
    linear = [
        m for m in policy.model.model.layers[0].modules() if hasattr(m, "in_features")
    ]
    numbers = 64 + sum(one.in_features + one.out_features for one in linear)
    assert found.factors == numbers * 4 * 4
    assert 2 * found.layer <= found.kept < 2.5 * found.layer
