"""The callback of TRL's trainer: the same training, and its numbers wherever it reports."""

import re
import struct
from types import SimpleNamespace

import pytest
import torch
import transformers
from transformers.integrations import integration_utils

from mse_lab.trl import MSECallback
from trl_training import BASE, ROWS, advise_apart, right, train

callbacks = pytest.importorskip("trl.trainer.callbacks", reason="needs the extra train")

BUDGET = 192


class Kept(transformers.TrainerCallback):
    """A reporter that keeps what it is given."""

    lines: list = []  # noqa: RUF012 - transformers makes one of it, and the callback another

    def on_log(self, args, state, control, logs=None, **given):
        """Keep a line."""
        self.lines.append((state.global_step, dict(logs)))


class Tables(callbacks.RichProgressCallback):
    """TRL's console, of which no terminal would show the last tables only."""

    def on_log(self, *args, **given):
        """Print the tables of this line."""
        super().on_log(*args, **given)
        if self.training_status:
            self.rich_console.print(self.training_status.status)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train with a callback and without."""
    folder = tmp_path_factory.mktemp("trained")
    callback = MSECallback(ROWS, right, every=2, budget=BUDGET, share=1.0)
    reporters = ["kept"] + ["tensorboard"] * integration_utils.is_tensorboard_available()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "kept", Kept)
        patch.setattr(Kept, "lines", [])
        patch.setenv("COLUMNS", "160")  # For the tables of TRL's console.
        trainer, screen = train(folder, [callback, Tables()], report_to=reporters)
        lines, end = list(Kept.lines), torch.get_rng_state()
        plain, _ = train(folder, [])
        plain_end = torch.get_rng_state()
    return SimpleNamespace(
        **{"callback": callback, "trainer": trainer, "screen": screen, "lines": lines},
        **{"plain": plain, "ends": (end, plain_end), "folder": folder},
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


def scalars(folder, tag):
    """Read a number's (step, value) in the one run's file of tensorboard, of TFRecords."""
    events = pytest.importorskip("tensorboardX.proto.event_pb2", reason="the extra test")
    (file,) = (
        one for one in folder.glob("runs/*/events*") if tag.encode() in one.read_bytes()
    )
    rest = file.read_bytes()
    while rest:
        (length,) = struct.unpack("<Q", rest[:8])
        event = events.Event.FromString(rest[12 : 12 + length])
        rest = rest[16 + length :]
        for one in event.summary.value:
            if one.tag == tag:
                yield event.step, one.simple_value


@pytest.mark.parametrize("name", ["best_group_size", "rho"])
def test_tensorboard_has_them_at_their_steps(trained, name):
    key = f"mse/{name}"
    reported = [
        (step, pytest.approx(line[key]))
        for step, line in trained.lines
        if key in line and "loss" not in line
    ]
    assert list(scalars(trained.folder, f"train/{key}")) == reported
    assert [step for step, _ in reported] == [0, 2, 4]
    (run,) = trained.folder.glob("runs/*")
    assert sorted(one.suffix == ".mse" for one in run.iterdir()) == [False, True]
    assert len(list(scalars(trained.folder, "train/loss"))) == 5


def test_trls_console_has_them(trained):
    for line in (trained.trainer.state.log_history[at] for at in (0, 2, 4)):
        assert re.search(rf"noise_scale +{line['mse/noise_scale']:.3f}", trained.screen)


def test_the_screen_says_the_advice_and_the_share(trained):
    assert re.search("mse_lab: step 0: (Keep|Set|Cannot tell whether) num", trained.screen)
    assert "mse_lab: 3 measurements took " in trained.screen
    assert "0 were skipped" in trained.screen


def test_its_numbers_are_those_of_advise(trained):
    advice = advise_apart(BUDGET)
    found = trained.trainer.state.log_history[0]
    assert advice.recommended != 2  # or one could be taken for the other
    assert found["mse/best_group_size"] == pytest.approx(advice.best_group_size, rel=1e-6)
    assert found["mse/best_group_size_low"] == pytest.approx(advice.low, rel=1e-6)
    cost = [advice.c1.value * size + advice.c2.value + advice.c3.value / (size - 1)
            for size in (2, advice.best_group_size)]  # fmt: skip
    assert found["mse/cost_at_G"] == pytest.approx(cost[0] / cost[1], rel=0.005)
    assert found["mse/noise_scale"] == pytest.approx(cost[0] / advice.gradient2.value)
    assert found["mse/relative_error"] == pytest.approx(found["mse/noise_scale"] / 8)
