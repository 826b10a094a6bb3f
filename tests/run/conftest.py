"""Fixtures of runs: a small probe, and a subject in memory."""

import pytest

from models import small_probe
from mse_lab.config.probe_files import load_probe, parse_probe
from mse_lab.data.prompts import Prompt
from mse_lab.policy.policy import load_policy
from mse_lab.run.context import attach
from mse_lab.run.subject import Subject


def parity(text, row):
    return len(text) % 2


@pytest.fixture
def probe(write_probe):
    """A small probe with completions long enough to differ in length."""
    return load_probe(write_probe(sampling={"max_new_tokens": 6}))


@pytest.fixture
def subject_of(checkpoint, tmp_path):
    """A subject of the small model, whose reward or estimators a test chooses."""
    longer = {"sampling": {"max_new_tokens": 5}, "pool": {"reference": 8, "replicate": 8}}
    values = small_probe(checkpoint, "none", **longer)
    values["model"]["dtype"] = "float64"
    probe = parse_probe(values, "probe")
    policy = load_policy(probe, tmp_path)
    prompts = [Prompt("a", "1 2", "3", {}), Prompt("b", "3", "1", {})]

    def make(reward=parity, scored=None, **options):
        given = {"name": "two", "probe": probe, "prompts": prompts, "reward": reward}
        return attach(Subject(**given, **options), policy, scored)

    return make
