"""The callback of TRL's trainer: the same training, and its numbers wherever it reports."""

import os
import re
import struct
from types import SimpleNamespace

import pytest
import torch
import transformers
from transformers.integrations import integration_utils

from mse_lab.trl import MSECallback
from torchrun_starts import ROOT, torchrun
from trl_training import LENGTH, ROWS, advise_apart, load, right, train

pytest.importorskip("trl", reason="needs the extra train")

BUDGET = 192
KEYS = (
    *("best_group_size", "best_group_size_low", "best_group_size_high", "progress"),
    *("noise_scale", "zero_variance_groups", "rho", "value", "step"),
)


class Kept(transformers.TrainerCallback):
    """A reporter that keeps what it is given."""

    lines: list = []  # noqa: RUF012 - transformers makes one of it

    def on_log(self, args, state, control, logs=None, **given):
        """Keep a line."""
        self.lines.append((state.global_step, dict(logs)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train with a callback and without."""
    folder = tmp_path_factory.mktemp("trained")
    callback = MSECallback(ROWS, right, every=2, budget=BUDGET, share=1.0)
    reporters = ["kept"] + ["tensorboard"] * integration_utils.is_tensorboard_available()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "kept", Kept)
        patch.setattr(Kept, "lines", [])
        trainer, screen = train(folder, [callback], report_to=reporters)
        lines, end = list(Kept.lines), torch.get_rng_state()
        plain, _ = train(folder, [])
        plain_end = torch.get_rng_state()
    return SimpleNamespace(
        **{"callback": callback, "trainer": trainer, "screen": screen, "lines": lines},
        **{"plain": plain, "ends": (end, plain_end), "folder": folder},
    )


def test_the_training_is_the_same_bit_for_bit(trained):
    weights, start = trained.trainer.model.state_dict(), load()["model"].state_dict()
    plain = trained.plain.model.state_dict()
    assert all(torch.equal(weights[name], plain[name]) for name in plain)
    assert not all(torch.equal(weights[name], start[name]) for name in start)
    assert torch.equal(*trained.ends)


def test_its_numbers_are_in_the_trainers_log_and_where_that_is_reported(trained):
    """Measured before steps 1, 3 and 5, in their lines of the log, beside TRL's own."""
    assert (trained.callback.measured, trained.callback.skipped) == (3, 0)
    history = [line for line in trained.trainer.state.log_history if "reward" in line]
    reported = {step: line for step, line in trained.lines if "reward" in line}
    plain = [line for line in trained.plain.state.log_history if "reward" in line]
    for line, alone in zip(history, plain, strict=True):
        names = {name for name in line if name.startswith("mse/")}
        due = line["step"] % 2 == 1
        assert names - {"mse/steps_saved"} == {f"mse/{key}" for key in KEYS if due}
        assert all(reported[line["step"]][name] == line[name] for name in names)
        assert line.keys() - names == alone.keys()
        if due:
            assert line["mse/step"] == line["step"] - 1
    assert trained.screen.count("'mse/best_group_size'") == 3


def scalars(folder, tag):
    """Read a number's (step, value) in the one file of tensorboard, of TFRecords."""
    events = pytest.importorskip("tensorboardX.proto.event_pb2", reason="the extra test")
    (file,) = folder.glob("runs/*/events*")
    rest = file.read_bytes()
    while rest:
        (length,) = struct.unpack("<Q", rest[:8])
        event = events.Event.FromString(rest[12 : 12 + length])
        rest = rest[16 + length :]
        for one in event.summary.value:
            if one.tag == tag:
                yield event.step, one.simple_value


def test_tensorboard_has_them(trained):
    history = trained.trainer.state.log_history
    for key in ("mse/best_group_size", "mse/rho"):
        logged = [
            (line["step"], pytest.approx(line[key])) for line in history if key in line
        ]
        assert list(scalars(trained.folder, f"train/{key}")) == logged
        assert len(logged) == 3


def test_the_screen_says_the_advice_and_what_it_took(trained):
    assert re.search("mse_lab: step 0: (Keep|Set|Cannot tell whether) num", trained.screen)
    assert "mse_lab: 3 measurements took " in trained.screen
    assert "0 were skipped" in trained.screen


def test_its_numbers_are_those_of_advise(trained):
    """Of the untrained model, asked about eight completions a step in groups of two."""
    prompts = [
        {"id": str(at), "problem": row["prompt"], "answer": row["answer"]}
        for at, row in enumerate(ROWS)
    ]
    training = {"num_generations": 2, "per_device_train_batch_size": 8}
    training |= {"gradient_accumulation_steps": 1}
    given = {"sampling": {"max_new_tokens": LENGTH}, "training": training}

    def reward(text, row):
        return float(text.strip() == row["answer"])

    advice = advise_apart(*load().values(), prompts, reward, budget=BUDGET, **given)
    found = trained.trainer.state.log_history[0]
    assert found["mse/best_group_size"] == pytest.approx(advice.best_group_size, rel=1e-6)
    assert found["mse/best_group_size_low"] == pytest.approx(advice.low, rel=1e-6)
    assert found["mse/value"] == pytest.approx(advice.mean_reward)
    assert advice.completions_per_step == 8
    step = advice.progress_at(8, 2).progress.value
    assert found["mse/progress"] == pytest.approx(step, rel=1e-6)
    assert found["mse/noise_scale"] == pytest.approx(advice.noise_scale.value, rel=1e-6)
    assert step == pytest.approx(8 / (8 + found["mse/noise_scale"]), rel=1e-6)


TRAINING = """
import sys
import torch
from mse_lab.trl import MSECallback
from trl_training import ROWS, right, train

calls = []
def counted(completions, answer, **columns):
    calls.append(len(completions))
    return right(completions, answer)

callback = MSECallback(ROWS, counted, every=1, budget=192, share=1.0)
changes = {"num_generations": 4, "per_device_train_batch_size": 4, "max_steps": 2}
trainer, screen = train(sys.argv[1], [callback], **changes)
plain, _ = train(sys.argv[1], [], **changes)
pairs = zip(trainer.model.parameters(), plain.model.parameters(), strict=True)
same = all(torch.equal(*pair) for pair in pairs)
logged = sum("mse/best_group_size" in line for line in trainer.state.log_history)
rank = trainer.accelerator.process_index
said = f"{rank}: {same}, {callback.measured} measured, {bool(calls)}, {logged} logged"
print(said, screen, sep="\\n", flush=True)
"""


@pytest.mark.slow
def test_of_two_processes_the_first_measures_and_both_train_as_without(tmp_path):
    (tmp_path / "training.py").write_text(TRAINING)
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = torchrun(tmp_path, folder=path, program=tmp_path / "training.py")
    assert done.returncode == 0, done.stderr
    assert "0: True, 2 measured, True, 2 logged" in done.stdout
    assert "1: True, 0 measured, False, 0 logged" in done.stdout
    assert done.stdout.count("mse_lab: 2 measurements took ") == 1
