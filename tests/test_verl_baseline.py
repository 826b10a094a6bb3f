"""verl's door to an advantage of one's own: called by the names that verl uses."""

import importlib
import inspect
import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups

# What verl's `compute_advantage` hands over by name, as read at 0.8.0.dev (b178a3c).
HANDED = ("token_level_rewards", "response_mask", "config", "index", "reward_baselines")
REWARDS = np.array([[1.0, 0.0, 0.25], [0.5, 0.5, 1.0]])


@pytest.fixture
def load(monkeypatch):
    """Load the file beside a verl that only registers."""
    registered = {}
    core = ModuleType("verl.trainer.ppo.core_algos")
    core.register_adv_est = lambda name: (
        lambda function: registered.setdefault(name, function)
    )
    for name in ("verl", "verl.trainer", "verl.trainer.ppo"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, core.__name__, core)

    def loaded(baseline):
        monkeypatch.setenv("MSE_LAB_BASELINE", baseline)
        monkeypatch.delitem(sys.modules, "probes.trainers.verl_baseline", raising=False)
        importlib.import_module("probes.trainers.verl_baseline")
        return registered["affine"]

    return loaded


def handed(rewards, index):
    """A batch as verl hands it over: the reward on the last token of unlike lengths."""
    lengths = 1 + np.arange(len(rewards)) % 3
    mask = torch.tensor(np.arange(4) < lengths[:, None]).double()
    tokens = torch.zeros(len(rewards), 4, dtype=torch.float64)
    tokens[torch.arange(len(rewards)), torch.tensor(lengths - 1)] = torch.tensor(rewards)
    values = (tokens, mask, object(), np.array(index, dtype=object), None)
    return dict(zip(HANDED, values, strict=True))


@pytest.mark.parametrize("baseline", ["0.3", "0,1", "-0.2,0.6"])
def test_it_is_the_affine_estimator_whatever_the_order_of_prompts(load, baseline):
    alpha, lam = (*map(float, baseline.split(",")), 0.0)[:2]
    entry = {"name": "affine", "alpha": alpha, "lambda": lam}
    expected = find_estimator(entry).weights(Groups.of_rewards(REWARDS))
    order = np.array([3, 0, 5, 1, 4, 2])  # Completions of both prompts in turn.
    given = handed(REWARDS.flatten()[order], [f"uid {at // 3}" for at in order])
    advantages, returns = load(baseline)(**given)
    assert torch.equal(advantages, returns)
    expected = expected.flatten()[order][:, None] * given["response_mask"].numpy()
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)


def test_verls_names_are_its_arguments(load):
    needed = [
        name
        for name, one in inspect.signature(load("0.1")).parameters.items()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    assert {*needed} <= {*HANDED}


@pytest.mark.parametrize("baseline", ["", "much", "nan", "0.1,inf"])
def test_a_baseline_that_is_none_is_refused_before_a_cluster_starts(load, baseline):
    with pytest.raises(SystemExit, match="give alpha, or alpha and lambda"):
        load(baseline)


def test_lambda_needs_a_group(load):
    function = load("0.1,0.5")
    with pytest.raises(ValueError, match="needs groups of two"):
        function(**handed(np.array([1.0, 0.0]), ["a", "b"]))
    alone, _ = load("0.25")(**handed(np.array([1.0, 0.0]), ["a", "b"]))
    assert alone[:, 0].tolist() == [0.75, -0.25]
