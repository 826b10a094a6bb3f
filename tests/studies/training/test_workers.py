"""Workers: everything once, in order; errors are told, and lose nothing that was done."""

import math
import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

from mse_lab.errors import InputError
from mse_lab.studies.training.workers import each


@pytest.mark.parametrize("processes", [1, 2])
def test_each_is_done_once(processes):
    done = list(each(math.sqrt, [4.0, 1.0, 9.0], processes))
    assert sorted((one, found) for one, found, _ in done) == [(1, 1), (4, 2), (9, 3)]
    assert all(seconds >= 0 for *_, seconds in done)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_is_that_of_the_work(processes):
    """What ends before it is yielded."""
    done = each(math.sqrt, [1.0, -1.0], processes)
    if processes == 1:
        assert next(done)[:2] == (1, 1)
    with pytest.raises(ValueError, match=r"domain error|nonnegative"):
        list(done)


def test_a_killed_process_is_one_line():
    with pytest.raises(InputError, match="--processes 2: one of them was killed, perhaps"):
        list(each(os._exit, [9], 2))


@pytest.mark.parametrize(("given", "found"), [(None, "1"), ("3", "3")])
def test_processes_share_the_cores_unless_told_otherwise(monkeypatch, given, found):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    many = 10 * (os.cpu_count() or 1)
    assert [threads for _, threads, _ in each(os.getenv, ["OMP_NUM_THREADS"], many)] == [
        found
    ]


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_no_process_outlives_what_it_worked_for():
    """As when the study is interrupted, or cannot write what was found."""
    others = set(active_children())
    done = each(time.sleep, [0.0, 600.0], 2)
    assert next(done)[0] == 0
    left = set(active_children()) - others
    assert len(left) == 2
    done.close()
    # Who joins them first learns how they ended; that they did, all see.
    deadline = time.monotonic() + 20
    while any(is_there(process.pid) for process in left):
        assert time.monotonic() < deadline
        time.sleep(0.01)


KILLED = """
import os, signal, time
from multiprocessing import active_children
from mse_lab.studies.training.workers import each

done = each(time.sleep, [0.0, 600.0], 2)
next(done)
print(*(child.pid for child in active_children()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_a_killed_parent():
    """Its workers hold the other end of its output, which ends with the last of them."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) == 2
