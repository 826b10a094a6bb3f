"""A subject of the small model in memory, whose reward or estimators a test chooses."""

import pytest

from mse_lab.measurement.subject import Inputs, make_subject
from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.prompts import Prompt


def parity(text, row):
    return len(text) % 2


@pytest.fixture
def subject_of(checkpoint, tmp_path):
    values = {
        "model": {"path": str(checkpoint), "device": "cpu", "dtype": "float64"},
        "prompts": {"source": "none", "template": "none"},
        "sampling": {"max_new_tokens": 5},
        "pool": {"reference": 8, "replicate": 8},
        "group_sizes": [2, 4],
    }
    probe = parse_probe(values, "probe")
    policy = load_policy(probe, tmp_path)
    prompts = [Prompt("a", "1 2", "3", {}), Prompt("b", "3", "1", {})]

    def make(reward=parity, scored=None, **options):
        inputs = Inputs(probe=probe, prompts=prompts, reward=reward, **options)
        return make_subject(inputs, policy, scored)

    return make
