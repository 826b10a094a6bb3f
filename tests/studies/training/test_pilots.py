"""Pilots: c1 to c3 of a policy against enumeration; their seeds are no run's."""

import numpy as np
import pytest
import yaml

pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")

from enumerated import enumerate_policy
from mse_lab.studies.training.pilots import measure_constants, pilots_of
from mse_lab.studies.training.settings import Prediction, Study, arms_of, runs_of
from mse_lab.studies.training.task import load_task


def exact_constants(task):
    """c1, c2, c3 with the prompts as the whole population."""
    gradients, oracle, pairs = [], [], []
    for prompt, tokens in zip(task.prompts, task.tokens, strict=True):

        def reward(own, prompt=prompt):
            return task.reward(task.policy.decode(own), prompt.record)

        found = enumerate_policy(task.policy, tokens, 4, 2, reward)
        gradients.append(found.gradient)
        oracle.append(found.moments().trace_oracle.item())
        pairs.append(found.moments().zeta.item())
    apart = np.array(gradients) - np.mean(gradients, axis=0)
    return (apart**2).sum(1).mean(), np.mean(oracle), np.mean(pairs)


def test_constants_are_those_of_the_trained_prompts(write_probe, tmp_path):
    """Six independent measurements; their mean within seven of its standard errors.

    Student's t of five degrees exceeds 7 once in 1,000. Were the two prompts a sample, c1
    would be twice this, which would be seen.
    """
    source = yaml.safe_load(write_probe().read_text())["prompts"]
    task = load_task(str(write_probe(prompts=source | {"limit": 2})), tmp_path)
    prediction = Prediction(reference=1024, replicate=64)
    model = task.policy.model
    found = np.array([measure_constants(task, model, prediction, s) for s in range(6)])
    exact = np.array(exact_constants(task))
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert (abs(found.mean(0) - exact) < 7 * error).all()
    assert 7 * error[0] < 0.7 * exact[0]


def test_pilots_are_none_of_the_runs():
    study = Study(probe="x", seeds=3)
    [arm] = arms_of(study)
    pilots = pilots_of(arm, study.prediction)
    assert len(pilots) == 2 * 4
    assert len({run.name for run in pilots}) == 8
    assert {run.seed for run in pilots}.isdisjoint(run.seed for run in runs_of([arm]))
    assert pilots[0].arm.digest != arm.digest
