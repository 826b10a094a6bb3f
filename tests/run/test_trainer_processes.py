"""Processes of a training share a measurement: the same numbers, and nobody waits."""

import os
import re
import threading

import pytest
import transformers

from mse_lab.errors import InputError
from mse_lab.run import trainer_processes
from mse_lab.run.processes import SINGLE_PROCESS
from mse_lab.run.trainer_processes import (
    FailedTogetherError,
    TrainerProcesses,
    join_trainer,
)
from mse_lab.trl import MSECallback
from torchrun_starts import ROOT, torchrun
from trl_training import BASE, ROWS, right, settings, state

PROMPTS = ROWS[:5]
BUDGET = 16 * len(PROMPTS)


class Threads:
    """Two threads in place of the processes of torch's default group, one at a time.

    Models have no state in common, but torch has, such as its hooks of saved tensors.
    """

    def __init__(self):
        self._here, self._turn = threading.local(), threading.Lock()
        self._meeting, self._values = threading.Barrier(2, timeout=60), [None, None]

    def is_available(self):
        """Say that there is a group."""
        return True

    is_initialized = is_available

    def get_world_size(self):
        """Count the threads."""
        return 2

    def get_rank(self):
        """Give the number of this thread."""
        return self._here.rank

    def all_gather_object(self, values, value):
        """Exchange a value; a thread that does not come breaks the barrier of the other."""
        self._values[self.get_rank()] = value
        self._turn.release()
        self._meeting.wait()
        values[:] = self._values
        self._meeting.wait()
        self._turn.acquire()

    def run(self, act):
        """Let both act; give their results, by rank."""
        found = [None, None]

        def of_rank(rank):
            self._here.rank = rank
            with self._turn:
                found[rank] = act(rank)

        both = [threading.Thread(target=of_rank, args=(rank,)) for rank in range(2)]
        for one in both:
            one.start()
        for one in both:
            one.join()
        return found


@pytest.fixture
def pair(monkeypatch):
    threads = Threads()
    monkeypatch.setattr(trainer_processes, "distributed", threads)
    return threads


def attempt(act):
    try:
        return act()
    except InputError as error:
        return error


def test_a_training_of_one_process_has_none_to_share_with():
    assert join_trainer() is SINGLE_PROCESS


def test_the_first_one_decides_and_all_get_all_values(pair):
    def act(rank):
        processes = join_trainer()
        return processes.agree(lambda: f"by {rank}"), processes.gather(rank)

    assert pair.run(act) == [("by 0", [0, 1])] * 2


@pytest.mark.parametrize("when", ["before", "while", "after"])
@pytest.mark.parametrize("fails", [0, 1])
def test_an_error_of_one_is_one_of_all_and_the_exchanges_go_on(pair, fails, when):
    """Before an exchange, while the first one decides in it, or after the last one."""

    def act(rank):
        processes = TrainerProcesses()

        def at(moment):
            if (rank, moment) == (fails, when):
                raise InputError("no network")

        def share():
            with processes.failing_together():
                at("before")
                processes.agree(lambda: at("while"))
                at("after")

        return attempt(share), processes.gather(rank)

    found = pair.run(act)
    if (fails, when) == (1, "while"):  # It decides nothing.
        assert found == [(None, [0, 1])] * 2
        return
    assert str(found[fails][0]) == "no network"
    assert isinstance(found[1 - fails][0], FailedTogetherError)
    assert str(found[1 - fails][0]) == f"process {fails}: no network"
    assert [exchanged for _, exchanged in found] == [[0, 1]] * 2


def test_a_process_that_is_lost_ends_the_training_with_a_line(pair, monkeypatch):
    def closed(values, value):
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(pair, "all_gather_object", closed)
    pair._here.rank = 0
    line = r"^mse_lab: a process was lost: the training ends here \(Connection closed"
    with pytest.raises(SystemExit, match=line), TrainerProcesses().failing_together():
        pass


def parts():
    kinds = transformers.AutoModelForCausalLM, transformers.AutoTokenizer
    model, tokenizer = (kind.from_pretrained(BASE) for kind in kinds)
    return {"model": model, "processing_class": tokenizer}


def measure(callback, given, *, first):
    of_trainer = {"args": settings(), "control": None, **given}
    callback.on_train_begin(state=state(first=first), **of_trainer)
    for step in (0, 1):
        callback.on_step_begin(state=state(step, first=first), **of_trainer)
    return callback._unlogged, callback.measured


def test_they_measure_what_one_measures_with_half_of_its_calls(pair, capsys, monkeypatch):
    given, calls = [parts(), parts()], [0, 0, 0]

    def counted(at):
        def reward(completions, answer, **columns):
            calls[at] += 1
            return right(completions, answer)

        return MSECallback(PROMPTS, reward, budget=BUDGET)

    both = pair.run(lambda rank: measure(counted(rank), given[rank], first=rank == 0))
    monkeypatch.undo()
    alone = measure(counted(2), given[0], first=True)
    assert alone[0] == both[0][0]
    assert alone[1] == both[0][1] == 1
    assert both[1] == ({}, 0)
    assert calls == [6, 6, 10]  # Of five blocks a look the second one repeats one.
    # What more would take is told by the time that was passed.
    told = re.sub(r"completions, [^)]*\)", "completions)", capsys.readouterr().out)
    first, second = told.splitlines()
    assert first == second


def test_one_whose_reward_fails_stops_the_measurement_of_all(pair, capsys):
    given = [parts(), parts()]

    def reward(completions, answer, **columns):
        if pair.get_rank():
            raise RuntimeError("no network")
        return right(completions, answer)

    def act(rank):
        callback = MSECallback(PROMPTS, reward, budget=BUDGET)
        measure(callback, given[rank], first=rank == 0)
        return callback.skipped

    assert pair.run(act) == [1, 1]
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("mse_lab: step 0 is not measured: process 1: ")
    assert "no network" in said


def test_other_prompts_in_another_process_are_refused(pair, capsys):
    given = [parts(), parts()]
    pair.run(
        lambda rank: measure(
            MSECallback(PROMPTS[rank:], right, budget=BUDGET), given[rank], first=rank == 0
        )
    )
    assert "process 1: this process's prompts are not those" in capsys.readouterr().out


TRAINING = """
import sys, time
from datetime import timedelta
from torch import distributed
from mse_lab.trl import MSECallback
from trl_training import ROWS, right, train

def slow(completions, answer, **columns):
    time.sleep(0.5)
    return right(completions, answer)

# Transformers gives a group on CPUs no limit of its own.
distributed.init_process_group("gloo", timeout=timedelta(seconds=6))
callback = MSECallback(ROWS, slow, budget=192)
changes = {"num_generations": 4, "per_device_train_batch_size": 4, "max_steps": 2}
trainer, screen = train(sys.argv[1], [callback], slow, **changes)
print(screen, flush=True)
"""


@pytest.mark.slow
def test_none_waits_for_as_long_as_the_group_waits(tmp_path):
    """24 calls of half a second in one process would exceed the group's limit of 6 s."""
    pytest.importorskip("trl", reason="needs the extra train")
    (tmp_path / "training.py").write_text(TRAINING)
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = torchrun(tmp_path, folder=path, program=tmp_path / "training.py")
    assert done.returncode == 0, done.stderr
    assert len(re.findall("mse_lab: step 0: (Keep|Set|Cannot)", done.stdout)) == 1
    assert done.stdout.count("mse_lab: 1 measurements took ") == 1
