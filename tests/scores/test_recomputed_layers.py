"""Recomputed layers: in parts of the block, also where nothing enters but their input."""

import dataclasses

import numpy as np

from foreign_modules import Positions
from foreign_policies import assert_exact, policy_with
from models import random_policy
from mse_lab.policy.policy import select_parameters
from mse_lab.scores.score_block import Scoring, score_block
from plain_scores import PROMPT, random_reference, some_completions


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
