"""Votes of processes that hold a model together, here threads; and what is refused."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch import nn

from mse_lab.errors import InputError
from mse_lab.policy import sharding
from mse_lab.policy.location import Location
from mse_lab.policy.sharding import OutOfStep, SharedModel, held_bytes, placement
from mse_lab.probe.schema import Model


class Room:
    """Processes, each in a thread, that show each other their ballots."""

    def __init__(self, count):
        self.barrier, self.ballots = threading.Barrier(count, timeout=5), [None] * count

    def peers(self, rank):
        room = self

        class Peers:
            def exchange(self, ballot, watch):
                room.ballots[rank] = ballot
                room.barrier.wait()
                found = list(room.ballots)
                room.barrier.wait()
                return found

        return Peers()


def walk(needs):
    """Let each process need units in an order, then serve; give what each took part in."""
    room, met = Room(len(needs)), [[] for _ in needs]

    def process(rank):
        shared = SharedModel(nn.Linear(1, 1), room.peers(rank))
        shared._contribute = met[rank].append
        for unit in needs[rank]:
            shared.await_turn(unit)
            met[rank].append(unit)
        shared.serve()

    with ThreadPoolExecutor(len(needs)) as pool:
        list(pool.map(process, range(len(needs))))
    return met


@pytest.mark.parametrize(
    "needs",
    [
        [[1, 2, 3], [1, 2, 3]],
        [[1, 2, 3] * 4, [1, 2, 3, 1, 3, 2]],
        [[], [1, 2, 3, 3, 2, 1, 1], [2]],
        [[], []],
    ],
)
def test_all_take_part_in_every_gather(needs):
    first, *others = walk(needs)
    assert all(met == first for met in others)
    assert all(len(first) >= len(each) for each in needs)


def test_equal_passes_share_their_gathers():
    passes = [1, 2, 3, 3, 2, 1]
    assert walk([passes, passes, passes])[0] == passes
    # One token more to draw: only that is gathered for one alone.
    assert walk([[1, 2, 3] * 5, [1, 2, 3] * 4])[0] == [1, 2, 3] * 5


def test_a_process_a_vote_short_is_seen_at_once():
    room = Room(2)

    def process(rank):
        shared = SharedModel(nn.Linear(1, 1), room.peers(rank))
        shared._contribute = lambda unit: None
        shared._turn += rank
        shared.serve()

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(process, rank) for rank in range(2)]:
            with pytest.raises(OutOfStep, match=r"\(0, 1\)"):
                each.result()


def test_gradients_of_processes_are_never_added_up():
    with pytest.raises(OutOfStep, match="added to other processes'"):
        sharding._NoReduce()(None, None)


def test_a_whole_model_is_held_whole():
    assert held_bytes(nn.Linear(3, 2)) == 4 * 8


@pytest.mark.parametrize(
    ("count", "changes", "complaint"),
    [
        (1, {}, "processes: 1; start a multiple of 2"),
        (3, {}, "processes: 3; start a multiple of 2"),
        (2, {"device_map": "auto"}, r"not beside model\.device_map"),
    ],
)
def test_what_cannot_be_sharded(monkeypatch, count, changes, complaint):
    monkeypatch.setattr(sharding.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(sharding.distributed, "get_world_size", lambda: count)
    with pytest.raises(InputError, match=rf"model\.shard = 2: {complaint}"):
        placement(Location("model.path", "m"), Model(path="m", shard=2, **changes))


def test_no_gguf_file_is_sharded(monkeypatch):
    monkeypatch.setattr(sharding.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(sharding.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InputError, match="not of a GGUF file"):
        placement(Location("model.path", "m", gguf="x.gguf"), Model(path="m", shard=2))
