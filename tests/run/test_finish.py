"""Finish: what is written of a run that several processes shared."""

import json
from dataclasses import replace

import pytest
import torch

from mse_lab.run.finish import finish
from mse_lab.run.prepare import load, prepare
from mse_lab.run.processes import Processes
from mse_lab.run.resume import claim, measure_and_keep


def second_process():
    one = Processes()
    one.rank = 1
    return one


def test_each_process_s_time_and_device_are_told(probe, tmp_path):
    """Seconds are those of the slowest; a device that two share is named once."""
    out = tmp_path / "out"
    bench = load(prepare("small", probe, out, tmp_path))
    second = replace(bench, processes=second_process())
    seconds = [0.0, 0.0, 0.0]
    for index in claim(bench, fresh=False):
        rank = index % 2
        shard = measure_and_keep([bench, second][rank], index)
        seconds_S = shard.seconds_S + 10 * rank
        slow = replace(shard, seconds_S=seconds_S, threads=shard.threads + rank)
        slow.save(bench.record.shard(index))
        seconds[rank] += slow.seconds
    outcome = finish(bench, ["A", "B", "A"], peak_memory=7)
    found = json.loads((out / "environment.json").read_text())
    assert found["process_seconds"] == pytest.approx(seconds, abs=0.051)
    assert found["seconds"] == pytest.approx(seconds[1], abs=0.051)
    assert (found["device_model"], found["processes"]) == ("A; B", 3)
    threads = torch.get_num_threads()
    assert found["threads"] == [threads, threads + 1]
    assert (found["peak_memory_bytes"], found["prompts"]) == (7, 5)
    assert not outcome.found
    assert bench.record.is_complete()
    assert not (out / "shards").exists()
