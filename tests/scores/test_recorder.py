"""The recorder: what a block does not use has no score, what is unforeseen is refused."""

import dataclasses

import numpy as np
import pytest
import torch

from enumerated import as_completions
from foreign_modules import Positions, Unused, linear
from foreign_policies import assert_exact, policy_with
from models import random_policy
from mse_lab.errors import InputError
from mse_lab.policy.policy import select_parameters
from mse_lab.scores.score_block import Scoring, score_block
from plain_scores import PROMPT, random_reference, some_completions


def test_what_a_block_does_not_depend_on_has_no_score():
    """Its module is called, and its reference is not zero."""
    policy = policy_with(Unused)
    short = as_completions([[4, 1], [2]])
    found = score_block(policy, PROMPT, short, random_reference(policy))
    inner = [name for name in policy.parameters if "inner" in name]
    assert len(inner) == 2
    assert all((found.norms2[name] == 0).all() for name in inner)
    assert_exact(policy, as_completions([[4, 5, 6, 7, 8, 1], [5, 6, 9, 9, 8, 7]]))


class Sometimes(torch.nn.Module):
    """Multiplies by a parameter only where a sequence is longer than the calibration's."""

    def __init__(self):
        super().__init__()
        self.inner = linear()

    def forward(self, x):
        return self.inner(x) if x.shape[1] > 20 else x


def test_what_the_calibration_did_not_meet_is_refused():
    policy = policy_with(Sometimes)
    completions = some_completions(policy, 3)
    with pytest.raises(InputError, match="the calibration pass did not use it"):
        score_block(policy, PROMPT * 3, completions, random_reference(policy))


def test_layers_are_recomputed_where_no_gradient_enters_them():
    policy = random_policy()
    chosen = select_parameters(policy.model, [r"layers\.1\.mlp"])
    policy = dataclasses.replace(policy, parameters=chosen)
    completions, reference = some_completions(policy), random_reference(policy)
    expected = score_block(policy, PROMPT, completions, reference)
    found = score_block(policy, PROMPT, completions, reference, how=Scoring(9, layer=2))
    np.testing.assert_allclose(found.gram_NN, expected.gram_NN, rtol=1e-5)


def test_positions_within_a_module_that_is_no_layer():
    """An expanded result, one row for each completion, also where a layer is cut."""
    assert_exact(policy_with(Positions), how=Scoring(3, layer=1))
