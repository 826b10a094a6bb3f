"""A pass for each completion: exact scores, chosen where a module has no rule."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from torch import nn

import run_mse
from enumerated import as_completions
from foreign_modules import H, weight
from foreign_policies import COMPLETIONS, policy_with
from models import random_policy, write_adapter, write_checkpoint
from mse_lab.policy.policy import load_policy, select_parameters
from mse_lab.probe.probe_files import parse_probe
from mse_lab.scores import autograd_rule, factors, plain_backward, scoring_plan
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.score_block import Scoring, score_block, score_difference
from mse_lab.scores.scoring_plan import find_plan, missing_rule, refuse
from mse_lab.scores.sketches import Sketch, Whole
from plain_scores import (
    PROMPT,
    assert_scores,
    autograd_scores,
    joined,
    random_reference,
    relative_gap,
)

SOME = as_completions([[4, 5, 6, 1], [3, 7, 1], [2], [8, 9, 10, 3, 1]])
ALONE = Scoring(4, alone=True)
WAYS = {
    "whole": ALONE,
    "in parts": ALONE._replace(layer=1),
    "in parts, sliced": ALONE._replace(layer=1, sliced=True),
}
# Mamba's logits are float32 whatever the precision.
BOUND = {("mamba", "in parts, sliced"): 1e-6}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2", "mamba", "qwen3_moe"])
def test_scores_equal_autograd(monkeypatch, architecture, way):
    """Matrices tied, and logits a token at a time where they are sliced."""
    monkeypatch.setattr(factors, "SLICE_BYTES", 90)
    policy = random_policy(architecture, tied=True)
    bound = BOUND.get((architecture, way), 1e-12)
    assert_scores(policy, SOME, bound, WAYS[way])


class Once(nn.Module):
    """Has a state that a pass of the model begins anew, and another call moves on."""

    def __init__(self):
        super().__init__()
        self.gain, self.calls = weight(H), 0

    def forward(self, x):
        self.calls += 1
        return x * self.gain * self.calls


def policy_of_once(module=Once):
    policy = policy_with(module)
    module = policy.model.model.layers[0].mlp
    policy.model.register_forward_pre_hook(lambda *_: setattr(module, "calls", 0))
    return policy


SAID = "model.layers.0.mlp (Once) has no rule: run again it gives something else"


def test_a_module_without_a_rule_is_scored_all_the_same():
    policy = policy_of_once()
    assert missing_rule(policy, 3) == SAID
    assert_scores(policy, COMPLETIONS, 1e-12)
    chosen = select_parameters(policy.model, ["mlp", "norm"])
    policy = dataclasses.replace(policy, parameters=chosen)
    assert_scores(policy, COMPLETIONS, 1e-12)


def test_a_model_that_bears_no_hooks_is_scored_all_the_same():
    """CTRL multiplies in place what a lookup gives."""
    policy = random_policy("ctrl")
    assert "in-place" in missing_rule(policy, 3)
    assert_scores(policy, COMPLETIONS, 1e-12)


def test_experts_too_large_for_a_block_are_scored_all_the_same(monkeypatch):
    policy = random_policy("jetmoe", tied=False)
    assert missing_rule(policy, 64) is None
    held = max(
        sum(policy.parameters[name].nbytes for name in answer.own.values())
        for answer in find_plan(policy).values()
        if answer.rule.name == "run again one by one"
    )
    monkeypatch.setattr(autograd_rule, "HELD_BYTES", 10 * held)
    assert missing_rule(policy, 10) is None
    assert "mlp" in missing_rule(policy, 11)
    assert "GiB" in missing_rule(policy, 11)
    monkeypatch.setattr(autograd_rule, "HELD_BYTES", held)
    assert_scores(policy, COMPLETIONS, 1e-12)


def test_an_adapter_counts_alone(tmp_path):
    base = write_checkpoint(tmp_path / "base")
    adapter = write_adapter(base, tmp_path / "adapter")
    model = {"path": str(base), "adapter": str(adapter), "device": "cpu"}
    values = {"model": {**model, "dtype": "float64"}, "prompts": {"source": "p.jsonl"}}
    policy = load_policy(parse_probe(values, "probe"), tmp_path)
    for parameter in policy.parameters.values():  # PEFT's B is zero
        parameter.data += 0.1
    some = as_completions([[1, 2, 0], [3, 0], [2, 2, 2]])
    expected = [
        score_block(policy, [1, 2], some, None, how=Scoring(3, alone=alone)).gram_NN
        for alone in (False, True)
    ]
    np.testing.assert_allclose(*expected, rtol=1e-9)


def test_weighted_sums_and_repeated_completions():
    policy = policy_of_once()
    again = COMPLETIONS[np.array([0, 2, 0, 1])]
    expected, weights_N = autograd_scores(policy, again), np.array([1.0, -2.0, 0.5, 0.0])
    keeper = Whole(policy.parameters)
    weighted = Weighted(weights_N, keeper)
    found = score_block(policy, PROMPT, again, None, weighted=weighted)
    assert relative_gap(keeper.vector, weights_N @ expected) < 1e-6
    assert relative_gap(found.gram_NN, expected @ expected.T) < 1e-12


def test_sketched_products_are_unbiased_and_the_rest_is_exact(monkeypatch):
    """Off the diagonal: the mean within 4 standard errors, their size as said."""
    monkeypatch.setattr(plain_backward, "SCORE_BUCKETS", 63)
    policy, found = random_policy(), []
    expected, reference = autograd_scores(policy, SOME), random_reference(policy)
    gram_NN, norms_N = expected @ expected.T, np.linalg.norm(expected, axis=1)
    for seed in range(49):
        monkeypatch.setattr(plain_backward, "crc32", lambda _, seed=seed: seed)
        how = ALONE._replace(sketched=True)
        scores = score_block(policy, PROMPT, SOME, reference, how=how)
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
    for rows in ([0, 1], [0, 1], [1, 2]):
        some = SOME[np.array(rows)]
        score_block(policy, PROMPT, some, None, how=Scoring(2, alone=True, sketched=True))
    first, other = seeds[0], seeds[-1]
    assert seeds == [first] * 4 + [other] * 2
    assert first != other


class Mixes(Once):
    """Lets a completion see the others of its batch."""

    def forward(self, x):
        return super().forward(x - 0.01 * x.mean(0))


@pytest.mark.parametrize(("module", "exact"), [(Once, True), (Mixes, False)])
def test_the_check_sees_a_score_that_depends_on_the_batch(module, exact):
    policy = policy_of_once(module)
    reference = random_reference(policy)
    for way in (Scoring(3), Scoring(3, layer=1, sliced=True)):
        block = score_block(policy, PROMPT, COMPLETIONS, reference, how=way)
        gap = score_difference(policy, PROMPT, COMPLETIONS, reference, block, way)
        assert (gap < 1e-12) == exact
        assert gap < 1e-3 or not exact


def test_a_run_says_so_and_measures_the_same(
    write_probe, checkpoint, tmp_path, monkeypatch, capsys
):
    """`plan` and `run` of a model without a rule, beside a run by rules."""

    def no_rules(policy, *_):
        raise refuse(policy, "model.norm.weight", "for a test")

    probe = write_probe(
        model={"path": str(write_checkpoint(tmp_path / "m")), "dtype": "float64"}
    )
    assert run_mse.main(["run", str(probe), "--out", str(tmp_path / "rules")]) == 0
    monkeypatch.setattr(scoring_plan, "_Trial", no_rules)
    assert run_mse.main(["plan", str(probe), "--out", str(tmp_path / "alone")]) == 0
    planned = " ".join(capsys.readouterr().out.split())
    assert run_mse.main(["run", str(probe), "--out", str(tmp_path / "alone")]) == 0
    rules, alone = tmp_path / "rules/small", tmp_path / "alone/small"
    said = "model.norm (Qwen2RMSNorm) has no rule: for a test; so each completion is"
    [warning] = [
        one
        for one in json.loads((alone / "checks.json").read_text())["warnings"]
        if "rule" in one
    ]
    assert warning.startswith(said)
    assert warning.endswith("between completions: exact")
    assert f"warning: {warning}" in planned
    environment = json.loads((alone / "environment.json").read_text())["memory"]
    assert environment["scoring"]["alone"]
    assert not environment["retreated"]
    found, expected = (pd.read_csv(one / "mse.csv") for one in (alone, rules))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-9)
