"""The callback of TRL's trainer: the same training, its numbers, what it cannot measure."""

import contextlib
import io
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from transformers.integrations import integration_utils

import mse_lab
from mse_lab.errors import InputError
from mse_lab.probe.prompt_templates import load_template
from mse_lab.trl import MSECallback, _zero_variance

trl = pytest.importorskip("trl", reason="needs the extra train")

ROOT = Path(__file__).resolve().parents[1]
BASE, SET = ROOT / "probes/tiny/base", ROOT / "probes/prompts/arithmetic-tiny.jsonl"
BUDGET, SEED, LENGTH = 192, 3, 8


def rows():
    template = load_template("plain", ROOT)
    lines = SET.read_text().splitlines()[:12]
    for row in map(json.loads, lines):
        yield {"prompt": template.render(row["problem"], []), "answer": str(row["answer"])}


ROWS = list(rows())


def right(completions, answer, **columns):
    return [float(one.strip() == it) for one, it in zip(completions, answer, strict=True)]


class Kept(transformers.TrainerCallback):
    """A reporter that keeps what it is given."""

    lines: list = []  # noqa: RUF012 - transformers makes one of it, and the callback another

    def on_log(self, args, state, control, logs=None, **given):
        """Keep a line."""
        self.lines.append((state.global_step, dict(logs)))


def train(folder, callbacks):
    from datasets import Dataset

    settings = {
        **{"output_dir": str(folder), "max_steps": 5, "learning_rate": 1e-3},
        **{"per_device_train_batch_size": 8, "num_generations": 2, "seed": SEED},
        **{"max_completion_length": LENGTH, "logging_steps": 1, "use_cpu": True},
        **{"report_to": ["kept"], "save_strategy": "no", "disable_tqdm": True},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        trainer = trl.GRPOTrainer(
            model=str(BASE),
            args=trl.GRPOConfig(**settings),
            reward_funcs=right,
            train_dataset=Dataset.from_list(ROWS),
            callbacks=callbacks,
        )
        with contextlib.redirect_stdout(io.StringIO()) as screen:
            trainer.train()
    return trainer, screen.getvalue()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train with a callback and without."""
    folder = tmp_path_factory.mktemp("trained")
    callback = MSECallback(ROWS, right, every=2, budget=BUDGET, share=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "kept", Kept)
        patch.setattr(Kept, "lines", [])
        trainer, screen = train(folder, [callback])
        lines, end = list(Kept.lines), torch.get_rng_state()
        plain, _ = train(folder, [])
        plain_end = torch.get_rng_state()
    return SimpleNamespace(
        **{"callback": callback, "trainer": trainer, "screen": screen, "lines": lines},
        **{"plain": plain, "ends": (end, plain_end)},
    )


def test_the_training_is_the_same_bit_for_bit(trained):
    weights = trained.trainer.model.state_dict()
    start = transformers.AutoModelForCausalLM.from_pretrained(BASE).state_dict()
    plain = trained.plain.model.state_dict()
    assert all(torch.equal(weights[name], plain[name]) for name in plain)
    assert not all(torch.equal(weights[name], start[name]) for name in start)
    assert torch.equal(*trained.ends)


def test_it_measures_before_the_steps_that_are_due(trained):
    assert (trained.callback.measured, trained.callback.skipped) == (3, 0)
    reported = [step for step, line in trained.lines if "loss" not in line and
                "mse/best_group_size_low" in line]  # fmt: skip
    assert reported == [0, 2, 4]


def test_its_numbers_join_the_trainers_log(trained):
    history = trained.trainer.state.log_history
    of_log = {line["step"]: line for line in history if "reward" in line}
    reported = {step: line for step, line in trained.lines if "loss" not in line}
    for step in (0, 2, 4):
        line = of_log[step + 1]
        joined = {key: line[key] for key in line if key.startswith("mse/")}
        assert joined == reported[step] | {"mse/step": step}
    assert "mse/value" not in of_log[2]
    assert trained.screen.count("'mse/cost_at_G'") == 3


def test_the_screen_says_the_advice_and_the_share(trained):
    assert "mse_lab: step 0: Set num_generations to " in trained.screen
    assert "mse_lab: 3 measurements took " in trained.screen
    assert trained.screen.rstrip().endswith("0 were skipped")


def test_its_numbers_are_those_of_advise(trained):
    parts = [one.from_pretrained(BASE) for one in
             (transformers.AutoModelForCausalLM, transformers.AutoTokenizer)]  # fmt: skip
    prompts = [{"id": str(at), "problem": row["prompt"], "answer": row["answer"]}
               for at, row in enumerate(ROWS)]  # fmt: skip
    advice = mse_lab.advise(
        *parts,
        prompts,
        lambda text, row: float(text.strip() == row["answer"]),
        sampling={"max_new_tokens": LENGTH},
        **{"budget": BUDGET, "seed": SEED, "progress": False},
    )
    found = trained.trainer.state.log_history[0]
    assert advice.recommended != 2  # or one could be taken for the other
    assert found["mse/best_group_size"] == pytest.approx(advice.best_group_size, rel=1e-6)
    assert found["mse/best_group_size_low"] == pytest.approx(advice.low, rel=1e-6)
    cost = [advice.c1.value * size + advice.c2.value + advice.c3.value / (size - 1)
            for size in (2, advice.best_group_size)]  # fmt: skip
    assert found["mse/cost_at_G"] == pytest.approx(cost[0] / cost[1], rel=0.005)
    assert found["mse/noise_scale"] == pytest.approx(cost[0] / advice.gradient2.value)
    assert found["mse/relative_error"] == pytest.approx(found["mse/noise_scale"] / 8)


@pytest.fixture(scope="module")
def given():
    model = transformers.AutoModelForCausalLM.from_pretrained(BASE)
    return {
        "model": model,
        "processing_class": transformers.AutoTokenizer.from_pretrained(BASE),
    }


def settings(**changes):
    """What the callback reads of a trainer's settings."""
    values = {
        **{"num_generations": 4, "num_iterations": 1, "max_completion_length": 4},
        **{"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None},
        **{"repetition_penalty": 1.0, "chat_template_kwargs": None, "seed": SEED},
        **{"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
        **{"world_size": 1, "torch_compile": False, "fsdp": [], "report_to": []},
        **{"output_dir": "nowhere"},
    }
    return SimpleNamespace(**(values | changes))


def state(step=0, *, first=True):
    return SimpleNamespace(
        global_step=step, is_world_process_zero=first, max_steps=10, log_history=[]
    )


def fail(completions, **columns):
    raise RuntimeError("no network")


def needs(completions, solution, **columns):
    return [0.0]


class Compiled(torch.nn.Module):
    """What torch.compile makes of a model, as far as it is looked at."""

    _orig_mod = None


class InParts(torch.nn.Module):
    """A model whose parameters are elsewhere, as under ZeRO-3."""

    def parameters(self, *_):
        """Give one that has the mark of it."""
        return [SimpleNamespace(ds_id=0)]


without = settings()
del without.num_generations
BAD = {
    "no-prompt": ({"prompts": [{"question": "1"}] * 3}, {}, "it has question"),
    "no-column": ({"reward": needs}, {}, "solution"),
    "exception": ({"reward": fail}, {}, "RuntimeError: no network"),
    "budget": ({"budget": 10}, {}, "the first look takes 192 completions"),
    "fsdp": ({}, {"args": settings(fsdp=["full_shard"])}, "in parts (FSDP or ZeRO-3)"),
    "zero": ({}, {"model": InParts()}, "in parts (FSDP or ZeRO-3)"),
    "compiled": ({}, {"model": Compiled()}, "the model is compiled"),
    "top-p": ({}, {"args": settings(top_p=0.9)}, "top_p = 0.9"),
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": "integer"}, "reward = 'integer': give a function"),
        ({"share": 0}, "share = 0"),
        ({"regret": 2}, "regret = 2"),
        ({"every": 0}, "every = 0"),
        ({"budget": 0}, "budget = 0"),
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

    monkeypatch.setattr(callback, "_look", look)
    for step in range(18):
        callback.on_step_begin(None, state(step), None)
        clock.now += 10
    assert measured == due


def test_the_first_process_measures(monkeypatch):
    callback = MSECallback(ROWS, right)
    monkeypatch.setattr(callback, "_look", pytest.fail)
    callback.on_step_begin(None, state(first=False), None)


def test_by_default_a_measurement_draws_a_share_of_what_the_training_draws():
    callback = MSECallback(ROWS, right, share=0.1)
    args, of_run = settings(num_iterations=2, world_size=4), state()
    assert callback._default_budget(args, of_run) == 384
    of_run.max_steps = 5000
    assert callback._default_budget(args, of_run) == 5000 * 8 * 4 // 2 // 10


def sampled(rewards, *, binary=True):
    return SimpleNamespace(rewards=rewards, binary=binary)


def used(size, known=None):
    return SimpleNamespace(group_size=size, zero_variance=known)


def test_larger_groups_than_were_drawn_go_by_a_beta_law():
    """Of values spread evenly every count of 16 is as likely, and of G groups 2/(G+1)."""
    run = sampled([np.repeat([1.0, 0.0], [count, 16 - count]) for count in range(17)])
    assert _zero_variance(used(32), run) == pytest.approx(2 / 33, rel=1e-3)
    assert np.isnan(_zero_variance(used(65), run))
    assert np.isnan(_zero_variance(used(32), sampled(run.rewards, binary=False)))
    assert _zero_variance(used(8, SimpleNamespace(value=0.5)), run) == 0.5
