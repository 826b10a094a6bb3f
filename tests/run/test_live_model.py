"""The model of a trainer, measured between two of its steps."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import transformers

from mse_lab.errors import InputError
from mse_lab.mse.rule import Question, decide
from mse_lab.results.checks import Check
from mse_lab.run.live_model import (
    live_inputs,
    refuse_failed,
    sample_live,
    step_size,
)

ROWS = [{"id": f"p{at}", "problem": f"{1 + at % 3} {1 + at // 3}"} for at in range(6)]
ARGS = SimpleNamespace(
    **{"max_completion_length": 2, "temperature": 1.0, "seed": 0},
    **{
        "generation_kwargs": None,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
    },
    **{"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "world_size": 3},
)


@pytest.fixture
def given(checkpoint):
    classes = transformers.AutoModelForCausalLM, transformers.AutoTokenizer
    return dict(
        zip(
            ("model", "processing_class"),
            (one.from_pretrained(checkpoint) for one in classes),
            strict=True,
        )
    )


LOOK = partial(decide, question=Question())


def short(text, row):
    return float(len(text) % 2)


def sample(given, args=ARGS):
    return sample_live(live_inputs(given, args, ROWS, short), LOOK, 96)[1]


def test_mixed_precision_is_left_out_and_comes_back(given):
    """As accelerate does it, the forward is an attribute of the model."""
    plain = sample(given)

    def halved(*args, **options):
        raise AssertionError("the forward of mixed precision was called")

    given["model"].forward = halved
    again = sample(given)
    assert given["model"].forward is halved
    assert again.decision == plain.decision


def test_its_forward_comes_back_after_an_error(given):
    given["model"].forward = short
    with pytest.raises(InputError, match="budget = 3"):
        sample_live(live_inputs(given, ARGS, ROWS, short), LOOK, 3)
    assert given["model"].forward is short


@pytest.mark.parametrize("change", [{"top_p": 0.5}, {"top_k": 3}, {"min_p": 0.1}])
def test_completions_of_another_distribution_are_refused(given, change):
    with pytest.raises(InputError, match=f"{next(iter(change))} = "):
        sample(given, SimpleNamespace(**(vars(ARGS) | change)))


def test_processes_with_other_prompts_are_refused(given):
    other = SimpleNamespace(agree=lambda decide: decide()[::-1])
    with pytest.raises(InputError, match="prompts are not those of process 0"):
        live_inputs(given, ARGS, ROWS, short, other)


def test_a_measurement_that_fails_a_check_is_refused():
    fine = Check("mean score zero", 0.5, 5.0, True, "standard errors")
    refuse_failed([fine, replace(fine, ok=None)])
    with pytest.raises(InputError, match=r"check failed \(mean score zero\)"):
        refuse_failed([fine, replace(fine, ok=False)])


def test_a_step_takes_the_completions_of_all_processes():
    assert step_size(ARGS) == 48
