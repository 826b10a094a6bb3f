"""Numbers reach the reporters of a trainer, where its own numbers are."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from transformers.integrations import integration_utils

from mse_lab.run.reporters import Reporters

STATE = SimpleNamespace(global_step=7, is_world_process_zero=True)


def report(args):
    Reporters(args).report({"mse/rho": 2.0}, args, STATE, model=None)


def test_tensorboard_gets_them_in_the_folder_of_the_run(monkeypatch, tmp_path):
    written = []

    class SummaryWriter:
        """Keeps what torch's would write."""

        def __init__(self, log_dir, filename_suffix):
            # Or two writers of one second would write into one file.
            assert filename_suffix
            self.log_dir = log_dir

        def add_scalar(self, name, value, step):
            """Keep a number."""
            written.append((self.log_dir, name, value, step))

        def flush(self):
            """Say that it was asked to."""
            written.append("flushed")

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(integration_utils, "is_tensorboard_available", lambda: True)
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    run = tmp_path / "runs" / "Jan01_host"
    run.mkdir(parents=True)
    report(SimpleNamespace(report_to=["tensorboard"], output_dir=tmp_path))
    assert written == [(str(run), "train/mse/rho", 2.0, 7), "flushed"]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_an_active_run_is_joined(monkeypatch, name):
    logged, module = [], ModuleType(name)
    module.log = logged.append
    monkeypatch.setitem(sys.modules, name, module)
    report(SimpleNamespace(report_to=[name], output_dir="nowhere"))
    assert logged == [{"train/mse/rho": 2.0, "train/global_step": 7}]
