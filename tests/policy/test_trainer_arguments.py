"""The arguments in a trainer's folder: read, and none of the pickle's code is run."""

import os
from pathlib import Path

import pytest
import torch

from mse_lab.errors import InputError
from mse_lab.policy.trainer_arguments import FILE, read_arguments


@pytest.mark.filterwarnings("ignore")
def test_trls_own(tmp_path):
    """The newest, in the folder or beside a checkpoint."""
    config = pytest.importorskip("trl").GRPOConfig
    for at, size in (("checkpoint-2", 8), ("checkpoint-10", 4)):
        (tmp_path / at).mkdir()
        args = config(
            output_dir=str(tmp_path),
            num_generations=size,
            bf16=False,
            per_device_train_batch_size=8,
            temperature=0.7,
        )
        torch.save(args, tmp_path / at / FILE)
    os.utime(tmp_path / "checkpoint-2" / FILE, (1, 1))
    found = read_arguments(tmp_path)
    assert (found["num_generations"], found["temperature"]) == (4, 0.7)
    assert found["generation_batch_size"] == 8
    assert "distributed_state" not in found


class Harmful:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


@pytest.mark.parametrize("content", [Harmful(), {"args": Harmful()}, b"no pickle", [1]])
def test_a_pickle_that_would_run_something_runs_nothing(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        Path(FILE).write_bytes(content)
    else:
        torch.save(content, FILE)
    with pytest.raises(InputError, match=rf"{FILE}: cannot be read: "):
        read_arguments(tmp_path)
    assert not Path("ran").exists()
