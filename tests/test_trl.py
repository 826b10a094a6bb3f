"""What the callback cannot measure, when it measures, and who waits."""

import os
import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from trl import GRPOTrainer, RLOOTrainer

from models import a_part
from mse_lab.answers.advice import make_advice
from mse_lab.errors import InputError
from mse_lab.trl import MSECallback, with_baseline
from mse_lab.trl.callback import log_numbers, replaced_in
from torchrun_starts import ROOT, torchrun
from trl_training import (
    BASE,
    ROWS,
    advise_apart,
    load,
    right,
    settings,
    spread,
    state,
    train,
)

BUDGET = 144
BASELINE = {"name": "affine", "alpha": 0.2, "lambda": 0.0}


@pytest.fixture(scope="module")
def given():
    return load()


def fail(completions, **columns):
    raise RuntimeError("no network")


def needs(completions, solution, **columns):
    return [0.0]


def marked(part, mark):
    """A small model of which a part has what a wrapper leaves there."""
    model = load()["model"]
    setattr(part(model), mark, print)
    return {"model": model}


def wrapped():
    """A model of which FSDP 1 has wrapped a layer."""
    model, one = load()["model"], object.__new__(FullyShardedDataParallel)
    torch.nn.Module.__init__(one)
    model.model.layers.append(one)
    return {"model": model}


IN_PARTS = "holds a part of it only (FSDP, ZeRO-3 or tensor parallelism); give a whole"
COMPILED = "a compiled model cannot be measured"


def trains(**changes):
    return lambda: {"args": settings(**changes)}


# What the callback is made with, what the trainer gives to it, and why it does not measure.
BAD = {
    "no prompt": ({"prompts": [{"question": "1"}] * 3}, dict, "it has question"),
    "no column": ({"reward": needs}, dict, "solution"),
    "reward fails": ({"reward": fail}, dict, "RuntimeError: no network"),
    "budget": ({"budget": 10}, dict, "the first look takes 144 completions"),
    "FSDP 1": ({}, wrapped, IN_PARTS),
    "FSDP 2": ({}, lambda: {"model": a_part(load()["model"])}, IN_PARTS),
    "ZeRO-3": ({}, lambda: marked(lambda one: one.lm_head.weight, "ds_id"), IN_PARTS),
    "compiled": ({}, lambda: marked(lambda one: one, "_orig_mod"), COMPILED),
    "in place": ({}, lambda: marked(lambda one: one, "_compiled_call_impl"), COMPILED),
    "compiles": ({}, trains(torch_compile=True), COMPILED),
    "top_p": ({}, trains(top_p=0.9), "top_p = 0.9: completions are not of the policy"),
    "min_p": ({}, trains(min_p=0.1), "min_p = 0.1"),
    "top_k": ({}, trains(generation_kwargs={"top_k": 5}), "top_k = 5"),
    "warmer": ({}, trains(generation_kwargs={"temperature": 0.5}), "temperature = 0.5"),
    "beams": ({}, trains(generation_kwargs={"num_beams": 2}), "num_beams = 2"),
}


@pytest.mark.parametrize(("own", "of_trainer", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_measured_is_one_line_and_the_training_goes_on(
    given, own, of_trainer, words, capsys
):
    all_own = {"prompts": ROWS, "reward": right, "every": 1, "budget": BUDGET} | own
    callback, now = MSECallback(**all_own, share=1), {"args": settings(), **given}
    now |= of_trainer()
    training = [part.training for part in now["model"].modules()]
    for step in (0, 1):
        callback.on_step_begin(control=None, state=state(step), **now)
    callback.on_train_end(None, state(), None)
    said, again, end = capsys.readouterr().out.splitlines()
    assert said.startswith("mse_lab: step 0 is not measured: ")
    assert words in said
    assert words in again
    assert end.endswith("; 2 were skipped")
    assert [part.training for part in now["model"].modules()] == training
    assert all(one.requires_grad for one in now["model"].parameters())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": "integer"}, "reward = 'integer': give a function"),
        ({"share": 0}, "share = 0: give a share such as 0.05"),
        ({"share": "x"}, "share = 'x'"),
        ({"regret": 2}, "regret = 2"),
        ({"every": 0}, "every = 0: give a whole number from 1"),
        ({"every": None}, "every = None"),
        ({"budget": 0}, "budget = 0"),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "",
)
def test_arguments_are_refused_before_the_training(changes, words):
    with pytest.raises(InputError, match=words):
        MSECallback(**({"prompts": ROWS, "reward": right} | changes))


@pytest.mark.parametrize(("share", "measured"), [(0.17, [0, 10, 15]), (1, [0, 5, 10, 15])])
def test_one_that_would_exceed_its_share_of_the_time_is_left_out(
    monkeypatch, share, measured
):
    """Steps and measurements of 10 s each, the latter due every 5 steps.

    At step 5 a second one would make 20 s of 70, at step 10 of 120, at 15 30 s of 180.
    """
    clock, found = SimpleNamespace(now=0.0), []
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("mse_lab.trl.callback.time", clock)
    callback = MSECallback(ROWS, right, every=5, share=share)

    def look(args, state, given):
        found.append(state.global_step)
        clock.now += 10

    monkeypatch.setattr(callback, "_measure", look)
    for step in range(18):
        callback.on_step_begin(settings(), state(step), None)
        clock.now += 10
    assert found == measured


@pytest.mark.parametrize("error", [None, RuntimeError("lost")])
def test_of_several_processes_the_first_measures_and_all_meet(monkeypatch, error):
    """At each step that is due, whether or not the first one measures, or fails."""
    met = []
    meeting = SimpleNamespace(wait_for_everyone=lambda: met.append("met"))
    args = settings(world_size=2, distributed_state=meeting)

    def measure(*_):
        met.append("measured")
        if error:
            raise error

    for first, expected in ((True, ["measured", "met"]), (False, ["met"])):
        callback = MSECallback(ROWS, right, every=2, share=1)
        monkeypatch.setattr(callback, "_measure", measure)
        for step in (0, 1, 2):
            callback.on_step_begin(args, state(step, first=first), None)
        assert met == expected * 2
        met.clear()


def test_a_measurement_keeps_to_its_share_of_the_others_patience(given, capsys):
    """Half of no time is none: at the first look it gives up, and says what to raise."""
    callback = MSECallback(ROWS, right, budget=BUDGET)
    meeting = SimpleNamespace(wait_for_everyone=lambda: None)
    args = settings(world_size=2, ddp_timeout=1e-6, distributed_state=meeting)
    callback.on_step_begin(args, state(), None, **given)
    assert callback.skipped == 1
    assert "or allow more (a trainer's ddp_timeout)" in capsys.readouterr().out


def test_by_default_a_measurement_draws_a_share_of_what_the_training_draws(monkeypatch):
    budgets = []

    def sample(subject, question, *, budget, **limits):
        budgets.append(budget)
        raise InputError("that is enough")

    monkeypatch.setattr("mse_lab.trl.callback.sample_probe", sample)
    callback, of_run = MSECallback(ROWS, right, share=0.1, every=1), state()
    args = settings(num_iterations=2, gradient_accumulation_steps=4)
    for steps in (10, 5000):
        of_run.max_steps = steps
        callback._attempt(args, of_run, load())
    assert budgets == [384, 5000 * 8 * 4 // 2 // 10]


def noisy(completions, **columns):
    """Draw from the streams of the whole program, as a judge may."""
    drawn = random.random() + np.random.rand() + torch.rand(1).item()  # noqa: NPY002
    return [float((drawn + len(one)) % 2 < 1) for one in completions]


def test_a_reward_may_draw_random_numbers_of_the_whole_program(given):
    def streams():
        return random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002

    before, torch_before = streams(), torch.get_rng_state()
    callback = MSECallback(ROWS, lambda text, row: noisy([text])[0], budget=BUDGET)
    callback.on_step_begin(settings(), state(), None, **given)
    assert (callback.measured, callback.skipped) in ((1, 0), (0, 1))
    assert before == streams()
    assert torch.equal(torch_before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"mask_truncated_completions": True}, ["mask_truncated_completions = True"]),
        ({"beta": 0.1, "num_iterations": 2}, ["2 updates a batch", "beta = 0.1"]),
        ({"normalize_advantages": False}, ["beta = 0.05 (default)"]),
        ({"reward_weights": [1.0, 0.5]}, ["reward_weights = [1.0, 0.5]"]),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 1}, []),
    ],
    ids=str,
)
def test_what_is_not_counted_in_is_told_once(given, capsys, changes, names):
    callback = MSECallback(ROWS, right, every=1, share=1, budget=BUDGET)
    args = settings(learning_rate=1e-6, **changes)
    for step in (0, 1):
        callback.on_step_begin(args, state(step), None, **given)
    assert callback.measured == 2
    [line] = [one for one in capsys.readouterr().out.splitlines() if "not counted" in one]
    assert all(name in line for name in [*names, "learning_rate = 1e-06"])


def test_the_callback_judges_the_trainers_class_and_the_baseline_in_its_place(given):
    judged = {}
    for name, args in {
        "trl": settings(scale_rewards="none", loss_type="dr_grpo"),
        "rloo": settings(normalize_advantages=False, beta=0.0),
        "ours": settings(
            num_generations=1, mse_lab_estimator=BASELINE, loss_type="dr_grpo"
        ),
    }.items():
        callback = MSECallback(ROWS, right, budget=BUDGET)
        evidence = callback._sample(args, state(), given)
        setting = evidence.setting
        judged[name] = setting.trainer, setting.group_size, setting.estimator
        assert setting.completions_per_step == 8
        logged = log_numbers(make_advice(evidence), evidence)
        assert ("mse/zero_variance_groups" in logged) == (setting.group_size > 1)
    assert judged == {
        "trl": ("trl", 4, {"name": "centred"}),
        "rloo": ("rloo", 4, {"name": "grpo"}),
        "ours": ("trl", 1, BASELINE),
    }


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        ([right, right], "reward_funcs = ['right', 'right']"),
        ([spread], "reward_funcs = spread (measured: right)"),
        ([right], ""),
        ([partial(right)], "reward_funcs = right (measured: right)"),
    ],
)
def test_rloos_own_kl_term_and_other_reward_functions_are_named(tmp_path, trained, said):
    callback = MSECallback(ROWS, right, budget=BUDGET)
    _, screen = train(tmp_path, [callback], trained, made=RLOOTrainer, max_steps=1)
    assert (callback.measured, callback.skipped) == (1, 0)
    [line] = [one for one in screen.splitlines() if "not counted in" in one]
    assert "beta = 0.05" in line
    assert line.endswith(said)
    assert bool(said) == ("reward_funcs" in line)


def test_what_a_users_code_replaces_is_named(tmp_path):
    """Completions of a `rollout_func` are not those that are measured."""

    class Mine(GRPOTrainer):
        pass

    callback = MSECallback(ROWS, right, budget=BUDGET)
    _, screen = train(tmp_path, [callback], right, made=Mine, max_steps=1)
    assert "learning_rate = 0.001, Mine (judged as TRL's own)" in screen
    for made, named in ((GRPOTrainer, []), (with_baseline(GRPOTrainer, alpha=0.1), [])):
        trainer = made.__new__(made)
        assert replaced_in(trainer) == named
        trainer.tools, trainer.rollout_func = [], print
        assert replaced_in(trainer) == ["rollout_func", *named]


def test_mixed_precision_is_left_out_and_comes_back():
    """As accelerate does it, the forward is an attribute of the model."""
    now, args = load(), settings()
    callback = MSECallback(ROWS, right, every=1, share=1, budget=BUDGET)
    callback.on_step_begin(args, state(), None, **now)
    plain = callback._numbers

    def halved(*args, **options):
        raise AssertionError("the forward of mixed precision was called")

    now["model"].forward = halved
    callback.on_step_begin(args, state(), None, **now)
    assert now["model"].forward is halved
    assert callback._numbers == plain


def test_chats_are_measured_as_advise_measures_the_same_rows():
    """Rows of TRL's form; the callback names a prompt by its place, advise by its id."""
    now = load(BASE.with_name("instruct"))
    rows = [
        {"id": str(at), "prompt": [{"role": "user", "content": row["prompt"]}]}
        | {"answer": row["answer"]}
        for at, row in enumerate(ROWS[:5])
    ]

    def reward(completions, prompts, answer, **columns):
        assert prompts[0][0]["role"] == "user"
        return right([turn["content"] for (turn,) in completions], answer)

    callback = MSECallback(rows, reward, budget=80)
    callback.on_step_begin(settings(), state(), None, **now)
    given = {"chat": True, "budget": 80, "sampling": {"max_new_tokens": 4}}
    advice = advise_apart(*now.values(), rows, reward, **given)
    assert callback._numbers["mse/best_group_size"] == advice.best_group_size


# A training with a callback and one without; and one with a baseline over the whole batch.
TRAININGS = """
import os
import sys
import torch
from mse_lab.run.processes import end_with_parent
from mse_lab.trl import MSECallback, with_baseline
from trl import GRPOTrainer
from trl_training import ROWS, right, spread, train

end_with_parent(1)

calls = []
def counted(completions, answer, **columns):
    calls.append(len(completions))
    return right(completions, answer)

callback = MSECallback(ROWS, counted, every=1, budget=144, share=1.0)
changes = {"num_generations": 4, "per_device_train_batch_size": 4, "max_steps": 1}
trainer, screen = train(sys.argv[1], [callback], **changes)
plain, _ = train(sys.argv[1], [], **changes)
pairs = zip(trainer.model.parameters(), plain.model.parameters(), strict=True)
same = all(torch.equal(*pair) for pair in pairs)
logged = sum("mse/best_group_size" in line for line in trainer.state.log_history)
rank = trainer.accelerator.process_index
said = f"{rank}: {same}, {callback.measured} measured, {bool(calls)}, {logged} logged"
print(said, screen, sep="\\n", flush=True)

class Watched(with_baseline(GRPOTrainer, weights="length", num_generations=1)):
    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        lengths = self.accelerator.gather(batch["completion_mask"].sum(1))
        rewards, first = self._rewards[:, 0], self.accelerator.process_index * len(inputs)
        for at, found in enumerate(batch["advantages"], first):
            others = [one for one in range(len(rewards)) if one != at]
            total = sum(rewards[one] * lengths[one] for one in others)
            expected = rewards[at] - total / sum(lengths[one] for one in others)
            assert abs(found - expected) < 1e-5, (found, expected)
        print(f"{self.accelerator.process_index}: {len(rewards)} seen", flush=True)
        return batch

changes = {"loss_type": "dr_grpo", "scale_rewards": "none", "max_steps": 1}
changes["per_device_train_batch_size"] = 4
_, screen = train(sys.argv[1], [], spread, made=Watched, **changes)
print(screen, flush=True)
trainer.accelerator.end_training()
sys.stdout.flush()
os._exit(0)  # A thread of gloo may abort a busy process while Python ends.
"""


@pytest.mark.slow
def test_of_two_processes_the_first_measures_and_both_train_as_without(tmp_path):
    """And with a baseline each takes its own part of one batch."""
    (tmp_path / "training.py").write_text(TRAININGS)
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = torchrun(tmp_path, folder=path, program=tmp_path / "training.py")
    assert done.returncode == 0, done.stderr
    assert "0: True, 1 measured, True, 1 logged" in done.stdout
    assert "1: True, 0 measured, False, 0 logged" in done.stdout
    assert done.stdout.count("mse_lab: 1 measurements took ") == 1
    assert {"0: 8 seen", "1: 8 seen"} <= {*done.stdout.splitlines()}
