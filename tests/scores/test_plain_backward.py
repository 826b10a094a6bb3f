"""A pass for each completion: chosen where a module has no rule, and as exact as said."""

import json

import numpy as np
import pandas as pd
import pytest
from torch import nn

from foreign_modules import H, policy_with, weight
from models import random_policy, write_checkpoint
from mse_lab.scores import plain_backward, scoring_plan, sketches
from mse_lab.scores.module_hooks import no_rule
from mse_lab.scores.score_block import Scoring, score_block, score_difference
from mse_lab.scores.scoring_plan import missing_rule
from mse_lab.scores.sketches import Sketch
from plain_scores import (
    PROMPT,
    assert_scores,
    autograd_scores,
    joined,
    random_reference,
    relative_gap,
)
from scores.test_exact_scores import SOME

ALONE = Scoring(alone=True)


class Once(nn.Module):
    """Has a state that a pass of the model begins anew, and another call moves on."""

    def __init__(self):
        super().__init__()
        self.gain, self.calls = weight(H), 0

    def forward(self, x):
        self.calls += 1
        return x * self.gain * self.calls


class Mixes(Once):
    """Lets a completion see the others of its batch."""

    def forward(self, x):
        return super().forward(x - 0.01 * x.mean(0))


def policy_of(module):
    policy = policy_with(module)
    module = policy.model.model.layers[0].mlp
    policy.model.register_forward_pre_hook(lambda *_: setattr(module, "calls", 0))
    return policy


WITHOUT_RULE = {
    "a module": (
        lambda: policy_of(Once),
        "model.layers.0.mlp (Once) has no rule: it is no linear map",
    ),
    # It multiplies in place what a lookup gives.
    "a model that bears no hooks": (lambda: random_policy("ctrl"), "in-place"),
}


@pytest.mark.parametrize(("make", "why"), WITHOUT_RULE.values(), ids=WITHOUT_RULE)
def test_what_has_no_rule_is_scored_all_the_same(make, why):
    """Also completions that repeat."""
    policy = make()
    assert why in missing_rule(policy)
    for completions in (SOME, SOME[np.array([0, 2, 0, 1])]):
        assert_scores(policy, completions, 1e-12)


def test_sketched_products_are_unbiased_and_the_rest_is_exact(monkeypatch):
    """Off the diagonal: the mean within 4 standard errors, their size as said."""
    monkeypatch.setattr(plain_backward, "SCORE_BUCKETS", 63)
    monkeypatch.setattr(sketches, "EXACT_BYTES", 0)
    policy, found = random_policy(), []
    expected, reference = autograd_scores(policy, SOME), random_reference(policy)
    gram_NN, norms_N = expected @ expected.T, np.linalg.norm(expected, axis=1)
    for seed in range(49):
        monkeypatch.setattr(plain_backward, "crc32", lambda _, seed=seed: seed)
        scores = score_block(policy, PROMPT, SOME, reference, how=ALONE)
        np.testing.assert_allclose(scores.gram_NN.diagonal(), norms_N**2, rtol=1e-12)
        assert relative_gap(scores.products_N, expected @ joined(reference)) < 1e-12
        found.append((scores.gram_NN - gram_NN) / np.outer(norms_N, norms_N))
    errors = np.array(found)[:, *np.triu_indices(4, 1)]
    assert (abs(errors.mean(0)) <= 4 * errors.std(0) / 7).all()
    assert (errors.std(0) > (4 * 63) ** -0.5).all()
    assert (errors.std(0) < (6 / 63) ** 0.5).all()


def test_blocks_have_hashes_of_their_own(monkeypatch):
    """So that errors of blocks are independent; those of one block have one hash."""
    policy, seeds = random_policy(), []

    def sketch(parameters, seed, _):
        seeds.append(seed)
        return Sketch(parameters, seed, 63)

    monkeypatch.setattr(plain_backward, "Sketch", sketch)
    monkeypatch.setattr(sketches, "EXACT_BYTES", 0)
    for rows in ([0, 1], [0, 1], [1, 2]):
        score_block(policy, PROMPT, SOME[np.array(rows)], None, how=ALONE)
    first, other = seeds[0], seeds[-1]
    assert seeds == [first] * 4 + [other] * 2
    assert first != other


@pytest.mark.parametrize(("module", "exact"), [(Once, True), (Mixes, False)])
def test_the_check_sees_a_score_that_depends_on_the_batch(module, exact):
    policy = policy_of(module)
    reference = random_reference(policy)
    block = score_block(policy, PROMPT, SOME, reference, how=ALONE)
    gap = score_difference(policy, PROMPT, SOME, reference, block, ALONE)
    assert (gap < 1e-12) == exact


def test_a_run_says_so_and_measures_the_same(write_probe, tmp_path, monkeypatch, carry_out):
    """`run` of a model without a rule, beside a run by rules."""

    def no_rules(policy, *_):
        raise no_rule("model.norm", policy.model.model.norm, "for a test")

    checkpoint = str(write_checkpoint(tmp_path / "m"))
    probe = write_probe(model={"path": checkpoint, "dtype": "float64"})
    carry_out("run", probe, "--out", tmp_path / "rules")
    monkeypatch.setattr(scoring_plan, "_Trial", no_rules)
    planned = " ".join(carry_out("run", probe, "--out", tmp_path / "alone").split())
    folder = tmp_path / "alone/small"
    warnings = json.loads((folder / "checks.json").read_text())["warnings"]
    [warning] = [one for one in warnings if "rule" in one]
    said = "model.norm (Qwen2RMSNorm) has no rule: for a test; so each completion is"
    assert warning.startswith(said)
    assert warning.endswith("between completions: exact")
    assert f"warning: {warning}" in planned
    memory = json.loads((folder / "environment.json").read_text())["memory"]
    assert memory["scoring"]["alone"]
    assert not memory["retreated"]
    tables = (pd.read_csv(one / "mse.csv") for one in (folder, tmp_path / "rules/small"))
    pd.testing.assert_frame_equal(*tables, rtol=1e-9)
