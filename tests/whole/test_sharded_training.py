"""A live model that FSDP2 shards: what one process measures, and the same training."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

from mse_lab.trl import MSECallback
from sharded_training import ADAPTER, BUDGET
from trl_training import BASE, ROWS, right, settings, state

pytest.importorskip("trl", reason="needs the extra train")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def start(tmp_path):
    """Return a function that trains in two processes, which may not hang."""

    def train(name, *words):
        folder = tmp_path / name
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        environment = {
            **os.environ,
            **{"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
            **{"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            **{"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)},
        }
        command = [sys.executable, ROOT / "tests/sharded_training.py", folder, *words]
        both = [
            subprocess.Popen(
                [*map(str, command)],
                env={**environment, "RANK": rank, "LOCAL_RANK": rank},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in ("0", "1")
        ]
        try:
            said = [one.communicate(timeout=240)[1] for one in both]
        finally:
            for one in both:
                one.kill()
        return folder, [one.returncode for one in both], said

    return train


def measured_alone(weights, *, adapter):
    """What the callback logs of the same weights in one process."""
    kinds = transformers.AutoModelForCausalLM, transformers.AutoTokenizer
    model, tokenizer = (kind.from_pretrained(BASE) for kind in kinds)
    if adapter:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(**ADAPTER))
    model.load_state_dict(weights, strict=False)
    assert weights.keys() == dict(model.named_parameters()).keys()
    callback = MSECallback(ROWS, right, budget=BUDGET)
    args = settings(max_completion_length=8, per_device_train_batch_size=4, world_size=2)
    given = {"model": model, "processing_class": tokenizer}
    callback.on_step_begin(args, state(2), None, **given)
    return callback._unlogged


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # Of peft's.
@pytest.mark.parametrize("adapter", [(), ("adapter",)])
def test_numbers_of_one_process_and_the_same_training(start, adapter):
    """Trained in bfloat16; the first measurement fails in one of the processes."""
    with_it, *ended = start("with", "callback", *adapter)
    assert ended[0] == [0, 0], ended[1]
    without, *ended = start("without", *adapter)
    assert ended[0] == [0, 0], ended[1]
    for name in ("weights-0.pt", "weights-1.pt", "weights-2.pt", "weights-3.pt"):
        left, right_ = (torch.load(folder / name) for folder in (with_it, without))
        assert all(torch.equal(left[each], right_[each]) for each in left), name
    log = json.loads((with_it / "log.json").read_text())
    said = [line for line in log["screen"].splitlines() if line.startswith("mse_lab: ")]
    assert said[0].startswith("mse_lab: step 0 is not measured: process 1: ")
    assert said[-1].endswith("; 1 were skipped")
    (found,) = (line for line in log["history"] if "mse/step" in line)
    expected = measured_alone(torch.load(with_it / "weights-2.pt"), adapter=bool(adapter))
    assert len(expected) > 8
    numbers = {name: found[name] for name in expected}
    assert numbers == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [("killed", -9), ("short", 1)])
def test_a_process_that_is_lost_ends_the_training_with_a_line(start, how, code):
    """Killed, or gone on where the other one still needs its part."""
    _, codes, said = start("lost", "callback", how)
    assert codes == [1, code]
    assert "Traceback" not in said[0]
    last = said[0].splitlines()[-1]
    assert last.startswith("mse_lab: a process was lost: the training ends here")
    assert ("waiting for 10 s" in last) == (how == "short")
