"""What is trained: rewards as TRL asks for them, J on common uniforms, held-out prompts."""

import copy

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")

from enumerated import enumerate_policy
from mse_lab.studies.training.task import load_task, with_prompts


@pytest.fixture
def task(write_probe, tmp_path):
    return load_task(str(write_probe()), tmp_path)


def test_j_is_the_mean_reward_of_the_policy(task):
    """Against all completions that there are: within four standard errors, 6e-5."""
    exact = []
    for prompt, tokens in zip(task.prompts, task.tokens, strict=True):

        def reward(own, prompt=prompt):
            return task.reward(task.policy.decode(own), prompt.record)

        exact.append(enumerate_policy(task.policy, tokens, 4, 2, reward).value)
    exact = np.array(exact)
    error = np.sqrt((exact * (1 - exact)).sum() / 2000) / len(exact)
    assert abs(task.mean_reward(2000) - exact.mean()) < 4 * error
    assert error < 0.01


def test_j_is_drawn_on_the_same_uniforms_each_time(task):
    assert task.mean_reward(20) == task.mean_reward(20) != task.mean_reward(21)


def test_j_is_over_so_many_of_the_first_prompts_however_they_are_drawn(task, monkeypatch):
    """A prompt at a time, and all of one length together; some have other lengths."""
    task.tokens[1].insert(0, task.tokens[1][0])
    means = [task.mean_reward(400, most) for most in (1, 2, 3)]
    assert len(set(means)) == 3
    monkeypatch.setattr("mse_lab.studies.training.task.ROWS", 1)
    assert means == [task.mean_reward(400, most) for most in (1, 2, 3)]
    assert task.mean_reward(400) == task.mean_reward(400, len(task.prompts))


def test_the_policy_follows_a_trained_model(task):
    model = copy.deepcopy(task.policy.model)
    for parameter in model.parameters():
        parameter.data.zero_()
    before = task.mean_reward(50)
    task.follow(model)
    assert task.mean_reward(50) != before


def test_rewards_are_those_of_a_completions_own_prompt(task):
    """The answers of the first two problems are 2 and 3; token ids are one digit each."""
    two, three = (task.policy.tokenizer(text).input_ids for text in "23")
    assert task.rewards([0, 0, 1, 1], [two, three, two, three]) == [1, 0, 0, 1]


def test_held_out_prompts_share_the_policy(task, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "a", "problem": "3 2", "answer": 1}\n')
    held_out = with_prompts(task, str(other), tmp_path)
    assert held_out.policy is task.policy
    assert [prompt.id for prompt in held_out.prompts] == ["a"]
