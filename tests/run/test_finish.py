"""Finish: what is written of a run that several processes shared."""

import json
from dataclasses import replace

import pytest
import torch

from measurements import change
from mse_lab.results.shard import save_shard
from mse_lab.run.finish import finish
from mse_lab.run.prepare import load, prepare
from mse_lab.run.processes import Processes
from mse_lab.run.resume import begin_or_resume, measure_and_keep


def second_process():
    one = Processes()
    one.rank = 1
    return one


def test_each_process_s_time_and_device_are_told(probe, tmp_path):
    """Seconds are those of the slowest; a device that two share is named once."""
    out = tmp_path / "out"
    context = load(prepare("small", probe, out, tmp_path))
    second = replace(context, spec=replace(context.spec, processes=second_process()))
    seconds = [0.0, 0.0, 0.0]
    for index in begin_or_resume(context, fresh=False):
        rank = index % 2
        prompt = measure_and_keep([context, second][rank], index)
        how = prompt.provenance
        seconds_S = how.seconds_S + 10 * rank
        slow = change(prompt, seconds_S=seconds_S, threads=how.threads + rank)
        save_shard(slow, context.spec.results.shard(index), context.origin(index))
        seconds[rank] += slow.provenance.seconds
    outcome = finish(context, ["A", "B", "A"], peak_memory=7)
    found = json.loads((out / "environment.json").read_text())
    assert found["process_seconds"] == pytest.approx(seconds, abs=0.051)
    assert found["seconds"] == pytest.approx(seconds[1], abs=0.051)
    assert (found["device_model"], found["processes"]) == ("A; B", 3)
    threads = torch.get_num_threads()
    assert found["threads"] == [threads, threads + 1]
    assert (found["peak_memory_bytes"], found["prompts"]) == (7, 5)
    assert not outcome.finished_before
    assert context.spec.results.is_complete()
    assert not (out / "shards").exists()
