"""Batches of a training, of any size: taken where the trainer takes them, and counted."""

import warnings

import pytest
from fuzzing import CASES
from hypothesis import example, given
from hypothesis import strategies as st

from mse_lab.config.trainers import StepAndDraw
from mse_lab.config.training import batch_for, fits, read_training
from mse_lab.errors import InputError

N, MINI = "actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.ppo_mini_batch_size"
COUNTS = st.integers(1, 12)


@given(COUNTS, COUNTS, st.integers(1, 4))
@CASES
def test_completions_that_a_step_takes_twice_count_once(accumulated, slices, passes):
    """TRL's `_prepare_inputs`: micro-step t takes slice t % slices of a draw."""
    taken = {(t // (slices * passes), t % slices) for t in range(accumulated)}
    batch = StepAndDraw(3 * accumulated, 3 * slices, 3, passes)
    assert batch.distinct == 3 * len(taken)


def accepted(**settings):
    """Ask TRL itself; None where it refuses, else its own count of a draw."""
    with warnings.catch_warnings(action="ignore"):
        config = pytest.importorskip("trl").GRPOConfig
        try:
            made = config(output_dir="out", report_to="none", bf16=False, **settings)
        except ValueError:
            return None
    return made.generation_batch_size


@given(
    st.fixed_dictionaries(
        {
            "num_generations": COUNTS,
            "per_device_train_batch_size": COUNTS,
            "gradient_accumulation_steps": COUNTS,
        },
        optional={"steps_per_generation": COUNTS, "generation_batch_size": COUNTS},
    ),
    COUNTS,
)
@example(
    {
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": 1,
    },
    8,
)
@CASES
def test_a_batch_is_taken_where_trl_takes_it(settings, size):
    drawn = accepted(**settings)
    step = settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"]
    try:
        found = read_training(settings)
    except InputError:
        assert drawn is None or step % settings["num_generations"]
        return
    assert drawn == found.batch.drawn
    assert found.completions_per_step == step
    assert fits(found, size) == (
        step % size == 0 and accepted(**settings | {"num_generations": size}) is not None
    )
    assert batch_for(found, size) == ""  # It counts completions, not groups.


@given(COUNTS, COUNTS, COUNTS, st.integers(1, 4), st.booleans(), COUNTS)
@CASES
def test_verls_batch_by_its_own_rules(size, mini, times, gpus, dynamic, other):
    """`validate_config`: real_train_batch_size by the GPUs; a mini batch within a batch."""
    settings = {
        N: size,
        MINI: mini,
        "data.train_batch_size": times,
        "trainer.n_gpus_per_node": gpus,
        "actor_rollout_ref.actor.use_dynamic_bsz": dynamic,
    }
    rules = dynamic or (times * size % gpus == 0 and mini <= times)
    try:
        found = read_training({"trainer": "verl", **settings})
    except InputError:
        assert not rules
        return
    assert rules
    assert found.completions_per_step == min(mini, times) * size
    if fits(found, other):
        typed = dict(word.split("=") for word in batch_for(found, other).split())
        again = read_training({"trainer": "verl", **settings | typed, N: other})
        assert again.completions_per_step == found.completions_per_step
        assert again.batch.drawn == found.batch.drawn
