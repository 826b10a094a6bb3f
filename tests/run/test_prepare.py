"""Prepare: what is at fault is said before anything is measured, by `advise` and `run`."""

import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.run.processes import Processes
from mse_lab.run.subject import prepare


@pytest.mark.parametrize("command", ["advise", "run"])
def test_rewards_are_tried_on_every_prompt(command, write_probe, tmp_path, capsys):
    """Before anything is measured, whichever prompts are measured first."""
    lines = ['{"id": "a", "problem": "1 2 3", "answer": 1}\n'] * 9
    (tmp_path / "prompts.jsonl").write_text(
        "".join(line.replace("a", f"p{index}", 1) for index, line in enumerate(lines))
        + '{"id": "last", "problem": "1", "answer": "one"}\n'
    )
    words = [command, str(write_probe()), "--out", str(tmp_path / "out")]
    assert run_mse.main(words) == 2
    assert "failed on prompt last" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_processes_that_are_about_different_things(probe, tmp_path):
    class Second(Processes):
        def agree(self, decide):
            return "what process 0 was given"

    with pytest.raises(InputError, match="not those of process 0"):
        prepare("small", probe, tmp_path / "out", tmp_path, Second())
