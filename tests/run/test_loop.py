"""The measuring loop: nothing is measured twice, nothing that is spoilt is trusted.

Every test is made of a run's prompts and of an advice's blocks of completions.
"""

import os
import shutil

import numpy as np
import pytest

from changed_subjects import changed
from mse_lab.errors import InputError
from mse_lab.results.measurement import PromptMeasurement, SampledPrompt
from mse_lab.run import loop
from mse_lab.run.context import load
from mse_lab.run.looks import Look, keyed_order
from mse_lab.run.loop import Shards, as_arrays, measuring
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.run.progress import Progress
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.sample import sample_batch
from mse_lab.run.subject import prepare

IDS = [f"p{index}" for index in range(5)]
LOOK = Look(5, 16)  # Two blocks of each prompt, in a batch each: no length is another's.


class Line(Progress):
    """A line that keeps what it is told."""

    def __init__(self):
        super().__init__("small", "prompts", hidden=True)
        self.shown = []

    def begin(self, total, done):
        self.total, self.done = total, done

    def show(self, done):
        self.shown.append(done)


class Task:
    """What a command asks for; keeps what is measured, and is interrupted where it ends."""

    def __init__(self, subject, kind):
        self.subject, self.kind = subject, kind
        self.measured, self.ends = [], []
        order = keyed_order(0, IDS)
        self.batches = [((index,),) for index in range(5)]
        if kind is SampledPrompt:
            self.batches = LOOK.batches(order, range(5))
        self.first = order[0]

    def measure(self, batch):
        if batch in self.ends:
            raise KeyboardInterrupt
        self.measured.append(batch)
        if self.kind is SampledPrompt:
            return sample_batch(self.subject, batch, checked=self.first)
        return [measure_prompt(self.subject, index) for (index,) in batch]

    def shards(self, **changes):
        subject = changed(self.subject, **changes)
        subject.folder.path.mkdir(exist_ok=True)
        return Shards(self.kind, subject.folder.file("shards"), subject.origin)

    def fill(self, store, batches=None, processes=SINGLE_PROCESS):
        line = Line()
        loop.fill(store, batches or self.batches, self.measure, processes, line)
        return line

    def items(self):
        return [item for batch in self.batches for item in batch]


@pytest.fixture(params=[PromptMeasurement, SampledPrompt], ids=["prompts", "blocks"])
def task(request, probe, tmp_path):
    scored = 16 if request.param is SampledPrompt else None
    subject = load(prepare("small", probe, tmp_path / "out", tmp_path), scored)
    return Task(subject, request.param)


@pytest.fixture(scope="module")
def stores():
    """What is measured once for all tests, by kind."""
    return {}


@pytest.fixture
def whole(task, stores):
    """What one process measures in memory."""
    if task.kind not in stores:
        stores[task.kind] = {}
        task.fill(stores[task.kind])
        task.measured.clear()
    return stores[task.kind]


def same(task, store, whole):
    for item, measured in zip(
        task.items(), loop.read_measurements(store, task.items()), strict=True
    ):
        found, expected = as_arrays(measured), as_arrays(whole[item])
        for name in found.keys() - {"seconds", "process", "peak_memory"}:
            np.testing.assert_array_equal(found[name], expected[name])
    return True


def test_a_folder_gives_what_memory_gives_and_the_line_counts(task, whole):
    shards = task.shards()
    line = task.fill(shards)
    count = {PromptMeasurement: 5, SampledPrompt: 5 * 16}[task.kind]
    assert (line.total, line.done) == (count, 0)
    ends = range(1, len(task.batches) + 1)
    assert line.shown == [*(loop.size(task.batches[:end]) for end in ends), count]
    sizes = [loop.size([(item,)]) for item in whole]
    reward = np.dot([one.mean_reward for one in whole.values()], sizes)
    cut = np.dot([one.completions.truncated for one in whole.values()], sizes)
    np.testing.assert_allclose(line._sums, [count, reward, cut])
    assert task.measured == task.batches
    assert same(task, task.shards(), whole)


def test_what_is_there_is_gone_on_with(task, whole):
    """A kill loses what is being measured, and nothing else."""
    task.ends.append(task.batches[3])
    with pytest.raises(KeyboardInterrupt):
        task.fill(task.shards())
    task.ends.clear()
    assert task.measured == task.batches[:3]
    task.measured.clear()
    line = task.fill(task.shards())
    assert task.measured == task.batches[3:]
    assert line.done == loop.size(task.batches[:3])
    assert line.shown[-1] == line.total
    assert same(task, task.shards(), whole)


def test_a_batch_is_measured_whole(task, whole):
    """What is missing does not decide what is measured together."""
    blocks = [(0, 12), (12, 16)] if task.kind is SampledPrompt else [()]
    # These two prompts have as many tokens.
    batches = [tuple((index, *block) for index in (1, 2)) for block in blocks]
    store = {batches[0][0]: whole[batches[0][0]]}
    task.fill(store, batches)
    assert task.measured == batches
    task.measured.clear()
    task.fill(store, batches)
    assert not task.measured


class OfTwo(Processes):
    """Takes every other item of what both have agreed to do."""

    def __init__(self, rank, todo):
        self.rank, self.todo = rank, todo

    def agree(self, decide, kind=None):
        """Give what was agreed before either began."""
        return self.todo

    def deal(self, count):
        """Give this one's items."""
        return iter(range(self.rank, count, 2))


def test_processes_share_what_is_missing(task, whole):
    """Each takes every other batch, and the first reads what the second has written."""
    for rank in (1, 0):
        processes, shards = OfTwo(rank, task.batches), task.shards()
        line = task.fill(shards, processes=processes)
        assert line._sums[0] == loop.size(task.batches[rank::2])
        assert line.shown[-1] == line.total
    assert len(shards.items()) == len(task.batches)
    assert same(task, shards, whole)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def anothers(path):
    other = next(one for one in sorted(path.parent.iterdir()) if one != path)
    shutil.copy(other, path)


@pytest.mark.parametrize("spoil", [pipe, anothers])
def test_what_is_spoilt_is_measured_again(spoil, task, whole, capsys):
    with measuring(task.subject, task.kind, fresh=False) as shards:
        task.fill(shards)
    path = task.shards().path(*task.batches[2])
    spoil(path)
    task.measured.clear()
    with measuring(task.subject, task.kind, fresh=False) as shards:
        task.fill(shards)
        assert same(task, shards, whole)
    assert task.measured == [task.batches[2]]
    said = capsys.readouterr().err
    assert f"1 measurements are made again: what there is of them ({path.name} in" in said


def test_a_file_is_of_all_that_was_measured(task):
    """Of the probe, its prompts, the item, the checkpoint and the reward."""
    subject = task.subject
    parts = ("set of prompts", "reward", "model", "answer of the model")
    others = [
        {"probe": subject.probe.model_copy(update={"seed": 1})},
        *({"identity": {**subject.identity, part: "another"}} for part in parts),
    ]
    [item], [other] = task.batches[:2]
    origins = {changed(subject, **changes).origin(item) for changes in ({}, *others)}
    assert len(origins | {subject.origin(other), subject.origin((*item, 8))}) == 8
    task.fill(task.shards(), task.batches[:1])
    assert item in task.shards()
    assert not any(item in task.shards(**changes) for changes in others)


def test_an_older_file_that_is_seen_first(task, monkeypatch):
    """Another machine has measured it again; here the file system is a moment behind."""
    task.fill(task.shards(), task.batches[:1])
    [path] = (task.subject.folder.path / "shards").iterdir()
    newer = path.read_bytes()
    path.write_bytes(b"of an earlier version")
    monkeypatch.setattr(
        "mse_lab.run.processes.time.sleep", lambda _: path.write_bytes(newer)
    )
    assert loop.read_measurements(task.shards(), task.batches[0])


def test_a_file_that_nobody_sees(task, monkeypatch):
    monkeypatch.setattr(loop, "PATIENCE", 0.0)
    with pytest.raises(InputError, match=r"\.npz: missing; start again"):
        loop.read_measurements(task.shards(), task.items())


def test_a_fresh_start_finds_nothing(task, tmp_path):
    """Also where shards lie elsewhere, by a link; what is not ours stays."""
    results, elsewhere = task.subject.folder, tmp_path / "elsewhere"
    elsewhere.mkdir()
    results.path.mkdir()
    results.file("shards").symlink_to(elsewhere)
    for fresh, lacking in [(False, 10), (False, 9), (True, 10)]:
        with measuring(task.subject, task.kind, fresh=fresh) as shards:
            found = len(loop.missing(shards, task.batches))
            assert found == lacking - 10 + len(task.batches)
            task.fill(shards, task.batches[:1])
            (elsewhere / "notes").write_text("mine")
    [item] = task.batches[1]
    path = task.shards().path(item)
    path.mkdir()
    for fresh in (True, False):
        start = measuring(task.subject, task.kind, fresh=fresh)
        with pytest.raises(InputError, match=r"\.npz: cannot be written"):
            start.__enter__()
        found = sorted(path.name for path in elsewhere.iterdir())
        assert found == sorted([path.name, "notes"])
