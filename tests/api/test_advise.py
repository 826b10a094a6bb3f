"""A model in memory, measured until its answer is known."""

import numpy as np
import pandas as pd
import pytest

import mse_lab
from models import load_parts, rows_of
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.mse.prompt_table import PromptTable

ROWS = rows_of((f"{1 + at % 3} {1 + at // 3}", at % 3 + 1) for at in range(6))
N_64 = {"completions_per_step": 64}
SETTINGS = {"sampling": {"max_new_tokens": 2}, "budget": 144, "progress": False}


@pytest.fixture(scope="module")
def parts(checkpoint):
    return load_parts(checkpoint)


def advise(parts, prompts=ROWS, reward="integer", **changes):
    return mse_lab.advise(*parts, prompts, reward, **(SETTINGS | changes))


@pytest.fixture(scope="module")
def advice(parts):
    return advise(parts, pd.DataFrame(ROWS))


def test_prompts_that_are_all_there_are(advice, parts):
    """The same completions, and c1 = 5/6 of the unbiased one; a bound is no larger."""
    these = advise(parts, population="these")
    assert (these.population, these.prompts, advice.population) == (6, 6, None)
    assert these.c1.value == pytest.approx(5 / 6 * advice.c1.value)
    assert these.regret <= advice.regret
    assert "of these 6 prompts alone" in str(these)
    with pytest.raises(InputError, match=r"prompts\.population"):
        advise(parts, population="those")


def test_it_says_what_it_rests_on(advice):
    assert (advice.completions, advice.stopped, advice.prompts) == (144, "budget", 6)
    assert 0 < advice.differentiated <= 144
    assert "144 completions of 6 prompts were drawn" in str(advice)


def test_the_same_in_any_order(advice, parts, tmp_path):
    """And from a folder, from which a later call goes on."""
    kept = advise(parts, ROWS[::-1], out=tmp_path)
    again = advise(parts, ROWS[::-1], out=tmp_path)
    for other in (kept, again):
        assert other.set_to == advice.set_to
        np.testing.assert_allclose(other.c3, advice.c3, rtol=1e-6)
    assert len(list((tmp_path / "advice/shards").iterdir())) == 18


def test_more_is_spent_where_less_may_be_lost(parts):
    loose, strict = (advise(parts, regret=one, budget=96) for one in (1.0, 0.001))
    assert loose.completions <= strict.completions == 96


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"regret": 0}, "regret = 0: give a share such as 0.05"),
        ({"budget": "x"}, "budget = 'x': give a whole number, or None"),
        ({"regret": "x"}, "regret = 'x': give a share such as 0.05"),
        ({"out": 5}, "out = 5: give a folder, or None"),
        ({"buget": 9}, "advise: unknown key buget; did you mean budget"),
        ({"pool": {}}, "advise: unknown key pool; "),
        ({"model_path": "x"}, "advise: unknown key model_path; "),
        ({"budget": 71}, "budget = 71: the first look takes 72 completions"),
        ({"prompts": ROWS[:2]}, "2 prompts: advice needs three or more"),
        ({"reward": lambda text, row: 1.0},
         "in 144 completions of mean reward 1 rewards differ within 0 of 6"),
        (N_64 | {"completions_per_step": 100}, "no whole groups of num_generations = 8"),
        (N_64 | {"training": "x"}, "training: not a mapping"),
        (N_64 | {"training": {"per_device_train_batch_size": 8}},
         "completions_per_step = 64, but a step has 8"),
        (N_64 | {"training": {"completions_per_step": 32}},
         "completions_per_step = 64: training says 32; leave one out"),
        ({"interval": {"level": 2}}, "interval.level"),
        ({"interval": 0.9}, r"interval = 0\.9: .* valid dictionary"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(parts, changes, words):
    with pytest.raises(InputError, match=words):
        advise(parts, **changes)


STD = "grpo-std(eps=0.0001, length=token-batch)"


def with_bonus(text, row):
    """Reward a first token, and 0.1 for an odd length."""
    return float(text.startswith("1")) + 0.1 * (len(text) % 2)


@pytest.mark.parametrize(
    ("training", "name", "of_each"),
    [
        ({}, STD, 12),
        ({"num_generations": 12}, STD, 16),
        ({"loss_type": "grpo"}, "grpo", 12),  # Divided by lengths it is not known.
    ],
)
def test_graded_rewards_are_judged_by_the_users_loss(
    parts, monkeypatch, training, name, of_each
):
    """By as many completions as its groups take, from the first look on."""
    monkeypatch.setattr(PromptTable, "knows_gradient", lambda *_: True)
    training = {"trainer": "trl", **training}
    found = advise(parts, reward=with_bonus, training=training, budget=6 * of_each)
    assert find_estimator(found.ladder[0].estimator).name == name
    assert (found.completions, found.differentiated) == (6 * of_each, 6 * of_each)
