"""What the callback cannot measure, and when it measures."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from torch.distributed.fsdp import FullyShardedDataParallel

import mse_lab
from mse_lab.errors import InputError
from mse_lab.run import live_model
from mse_lab.trl import MSECallback
from sharded_models import a_part
from trl_training import BASE, ROWS, SEED, right, settings, state

pytest.importorskip("trl", reason="needs the extra train")

BUDGET = 192
INSTRUCT = BASE.with_name("instruct")


@pytest.fixture(scope="module")
def given():
    model = transformers.AutoModelForCausalLM.from_pretrained(BASE)
    return {
        "model": model,
        "processing_class": transformers.AutoTokenizer.from_pretrained(BASE),
    }


def fail(completions, **columns):
    raise RuntimeError("no network")


def needs(completions, solution, **columns):
    return [0.0]


class Compiled(torch.nn.Module):
    """What torch.compile makes of a model, as far as it is looked at."""

    _orig_mod = None


compiled_in_place = torch.nn.Linear(1, 1)
compiled_in_place._compiled_call_impl = print  # As model.compile() does.


class InParts(torch.nn.Module):
    """A model whose parameters are elsewhere, as under ZeRO-3."""

    def parameters(self, *_):
        """Give one that has the mark of it."""
        return [SimpleNamespace(ds_id=0)]


class Version1(FullyShardedDataParallel):
    """What FSDP of version 1 makes of a model."""

    def __init__(self):
        torch.nn.Module.__init__(self)

    def parameters(self, *_):
        """Give none that could be told."""
        return []


without = settings()
del without.num_generations
BAD = {
    "no-prompt": ({"prompts": [{"question": "1"}] * 3}, {}, "it has question"),
    "no-column": ({"reward": needs}, {}, "solution"),
    "exception": ({"reward": fail}, {}, "RuntimeError: no network"),
    "budget": ({"budget": 10}, {}, "the first look takes 96 completions"),
    "fsdp": ({}, {"model": Version1()}, "in parts (FSDP version 1)"),
    "fsdp-2": ({}, {"model": a_part()}, "in parts (FSDP version 2 or tensor"),
    "zero": ({}, {"model": InParts()}, "in parts (DeepSpeed ZeRO-3)"),
    "compiled": ({}, {"model": Compiled()}, "a compiled model cannot be measured"),
    "in-place": ({}, {"model": compiled_in_place}, "a compiled model cannot be measured"),
    "compiles": ({}, {"args": settings(torch_compile=True)}, "a compiled model cannot"),
    "top-p": ({}, {"args": settings(top_p=0.9)}, "top_p = 0.9"),
    "top-k": ({}, {"args": settings(generation_kwargs={"top_k": 5})}, "top_k = 5"),
    "warm": ({}, {"args": settings(generation_kwargs={"temperature": 0.5})}, "= 0.5"),
    "beams": ({}, {"args": settings(generation_kwargs={"num_beams": 2})}, "num_beams = 2"),
    "version": ({}, {"args": without}, "no num_generations, as 1.16 does"),
    "event": ({}, {"processing_class": None}, "no processing_class, as 1.16 does"),
}


@pytest.mark.parametrize(("own", "of_trainer", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_measured_is_one_line_and_counted(
    given, own, of_trainer, words, capsys
):
    callback = MSECallback(
        **({"prompts": ROWS, "reward": right, "every": 1, "budget": BUDGET} | own), share=1
    )
    of_trainer = {"args": settings(), "control": None} | given | of_trainer
    training = given["model"].training
    for step in (0, 1):
        callback.on_step_begin(**of_trainer, state=state(step))
    callback.on_train_end(None, state(), None)
    said, again, end = capsys.readouterr().out.splitlines()
    assert said.startswith("mse_lab: step 0 is not measured: ")
    assert words in said
    assert words in again
    assert end.endswith("; 2 were skipped")
    assert given["model"].training == training
    assert all(one.requires_grad for one in given["model"].parameters())


def test_zero_3_is_refused_where_it_is_only_set(given, monkeypatch, capsys):
    monkeypatch.setattr(live_model, "is_deepspeed_zero3_enabled", lambda: True)
    callback = MSECallback(ROWS, right, every=1, budget=BUDGET, share=1)
    callback.on_step_begin(settings(), state(0), None, **given)
    assert "in parts (DeepSpeed ZeRO-3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": "integer"}, "reward = 'integer': give a function"),
        ({"share": 0}, "share = 0"),
        ({"regret": 2}, "regret = 2"),
        ({"every": 0}, "every = 0"),
        ({"budget": 0}, "budget = 0"),
        ({"budget": "x", "every": 5}, "budget = 'x': give a whole number from 1"),
        ({"share": "x"}, "share = 'x'"),
    ],
)
def test_arguments_are_refused_before_the_training(changes, words):
    with pytest.raises(InputError, match=words):
        MSECallback(**({"prompts": ROWS, "reward": right} | changes))


class Clock:
    """A time that passes as it is told to."""

    now = 0.0

    def monotonic(self):
        """Tell it."""
        return self.now


@pytest.mark.parametrize(("share", "due"), [(0.2, [0, 8, 13]), (1.0, [0, 5, 10, 15])])
def test_the_next_one_waits_for_its_share_of_the_time(monkeypatch, share, due):
    """Steps and measurements of 10 s each, the latter due every 5 steps.

    Another one after the first makes 20 s of 100 s at the earliest 80 s later.
    """
    clock, measured = Clock(), []
    monkeypatch.setattr("mse_lab.trl.time", clock)
    callback = MSECallback(ROWS, right, every=5, share=share)

    def look(args, state, given):
        measured.append(state.global_step)
        clock.now += 10

    monkeypatch.setattr(callback, "_measure", look)
    for step in range(18):
        callback.on_step_begin(None, state(step), None)
        clock.now += 10
    assert measured == due


def test_the_first_process_measures(monkeypatch):
    callback = MSECallback(ROWS, right)
    monkeypatch.setattr(callback, "_measure", pytest.fail)
    callback.on_step_begin(None, state(first=False), None)


def test_by_default_a_measurement_draws_a_share_of_what_the_training_draws():
    callback = MSECallback(ROWS, right, share=0.1)
    args, of_run = settings(num_iterations=2, world_size=4), state()
    assert callback._default_budget(args, of_run) == 384
    of_run.max_steps = 5000
    assert callback._default_budget(args, of_run) == 5000 * 8 * 4 // 2 // 10


def noisy(completions, **columns):
    """Draw from the streams of the whole program, as a judge may."""
    drawn = [
        random.random() + np.random.rand() + torch.rand(1).item()  # noqa: NPY002
        for _ in completions
    ]
    return [float(one < 1.5) for one in drawn]


def streams():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002


def test_a_reward_may_draw_random_numbers_of_the_whole_program(given):
    before = streams()
    callback = MSECallback(ROWS, noisy, budget=BUDGET)
    callback.on_step_begin(settings(), state(), None, **given)
    after = streams()
    assert callback.measured == 1
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


def test_completions_that_the_training_leaves_out_are_told(given, capsys):
    callback = MSECallback(ROWS, right, every=1, share=1, budget=BUDGET)
    masked = settings(mask_truncated_completions=True)
    for step in (0, 1):
        callback.on_step_begin(masked, state(step), None, **given)
    assert callback.measured == 2
    said = capsys.readouterr().out
    assert said.count("mask_truncated_completions = True leaves truncated completions") == 1


def test_chats_are_measured_as_advise_measures_the_same_rows():
    """Rows of TRL's form; the callback names a prompt by its place, advise by its id."""
    model = transformers.AutoModelForCausalLM.from_pretrained(INSTRUCT)
    tokenizer = transformers.AutoTokenizer.from_pretrained(INSTRUCT)
    rows = [
        {"id": str(at), "prompt": [{"role": "user", "content": row["prompt"]}]}
        | {"answer": row["answer"]}
        for at, row in enumerate(ROWS[:5])
    ]

    def reward(completions, prompts, answer, **columns):
        assert prompts[0][0]["role"] == "user"
        return right([turn["content"] for (turn,) in completions], answer)

    callback, budget = MSECallback(rows, reward, budget=80), 80
    given = {"model": model, "processing_class": tokenizer}
    callback.on_step_begin(settings(), state(), None, **given)
    advice = mse_lab.advise(
        *given.values(), rows, reward, chat=True, sampling={"max_new_tokens": 4},
        budget=budget, seed=SEED, progress=False,
    )  # fmt: skip
    assert callback._unlogged["mse/best_group_size"] == advice.best_group_size
