"""Processes that torchrun starts, and that share the prompts of a run.

They exchange JSON through torchrun's store. The store has no authentication, so nothing
that is read from it may be executed. They synchronise by gloo, which reports a lost process
at once. Nothing on a device is exchanged.

Each process measures the next prompt when it is free. Some prompts take several times as
long as others, devices differ, and an interrupted run has gaps. With equal shares all would
wait for the slowest process; this way none waits longer than one prompt takes. Which
process measures a prompt does not change its measurement.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from mse_lab.config.schema import Probe
from mse_lab.console import INPUT_ERROR, INTERRUPTED, Ending, ending
from mse_lab.errors import InputError, ProcessLost
from mse_lab.run.processes import (
    LOCK,
    PATIENCE,
    PAUSE,
    Processes,
    T,
    end_with_parent,
    lock,
    wait_until,
)

# Long enough that a wait ends only by its event or by a lost connection, for one prompt of
# a large model may take hours. In milliseconds it must fit into 32 bits.
FOREVER = timedelta(days=20)

# Torchrun's store is there when a process starts: where it is not, torchrun is gone.
JOINING = timedelta(minutes=5)

# Seconds that another process has to print its line: as soon as one process ends, torchrun
# ends the others of its machine.
COURTESY = 2.0


@contextmanager
def noticing_loss() -> Iterator[None]:
    """Raise `ProcessLost` for the errors that torch raises where a connection is lost."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLost(str(error)) from error


class TorchrunProcesses(Processes):
    """One of several processes, which exchange values through a store."""

    def __init__(self, store: Store, rank: int) -> None:
        self.rank = rank
        self._store = PrefixStore("mse_lab", store)
        # All processes meet and deal in the same order, so these numbers make equal keys.
        self._barriers = self._deals = 0

    def assign_device(self, probe: Probe) -> Probe:
        """Give the probe with the GPU of this process, unless the probe names one."""
        gpus = torch.cuda.device_count()
        if probe.model.device not in ("auto", "cuda") or not gpus:
            return probe
        local, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
        if probe.model.device_map is not None and here == 1:
            return probe
        if probe.model.device_map is not None:
            raise InputError(
                f"--nproc-per-node {here}: model.device_map = auto takes all GPUs of a "
                "machine; start one process on each machine"
            )
        if local >= gpus:
            raise InputError(
                f"--nproc-per-node {here}: GPUs on this machine: {gpus}; start no more "
                "processes than that, or set model.device"
            )
        torch.cuda.set_device(local)
        model = probe.model.model_copy(update={"device": f"cuda:{local}"})
        return probe.model_copy(update={"model": model})

    def agree(self, decide: Callable[[], T], kind: Any = Any) -> T:
        """Let the first process decide; all return its decision, of the type `kind`."""
        key, adapter = f"decision/{self._barriers}", TypeAdapter(kind)
        if self.first:
            text = json.dumps(adapter.dump_python(decide(), mode="json"))
            with noticing_loss():
                self._store.set(key, text)
        self.barrier()
        with noticing_loss():
            return adapter.validate_python(json.loads(self._store.get(key)))

    def deal(self, count: int) -> Iterator[int]:
        """Yield which items this process is to do; `count` must be the same in all."""
        self._deals += 1
        key = f"deal/{self._deals}"
        while True:
            self._end_on_complaint()
            with noticing_loss():
                turn = int(self._store.add(key, 1)) - 1
            if turn >= count:
                return
            yield turn

    def barrier(self) -> None:
        """Wait until all processes are here; raise ProcessLost if one is gone."""
        self._barriers += 1
        with noticing_loss():
            arrived = distributed.all_reduce(torch.zeros(1), async_op=True)
            # Python hears no Ctrl-C while torch waits.
            while not arrived.is_completed():
                self._end_on_complaint()
                time.sleep(PAUSE)
            arrived.wait()

    @contextmanager
    def locked(self, folder: Path) -> Iterator[None]:
        """Keep other starts out of a folder; refuse one that not all processes share."""

        def is_shared() -> bool:
            with suppress(OSError):
                return (folder / LOCK).read_text() == mark
            return False

        with ExitStack() as stack:
            mark = self.agree(lambda: stack.enter_context(lock(folder)))
            if not wait_until(is_shared, PATIENCE):
                raise InputError(
                    f"{folder}: not the folder that process 0 writes to; give one that all "
                    "machines share as --out"
                )
            self.barrier()
            yield

    def complain(self, say: Callable[[str], None], end: Ending) -> None:
        """Print the error of this process, unless another process prints one."""
        # The store may be gone, together with torchrun.
        with suppress(RuntimeError):
            if self._store.add("complaints", 1) > 1:
                time.sleep(COURTESY)
                return
        if not self.first:
            # The first process's progress bar may be in this line.
            print(file=sys.stderr)
        say(end.line)

    def _end_on_complaint(self) -> None:
        """End this process if another one has an error, once that is printed."""
        with noticing_loss():
            if self._store.add("complaints", 0):
                time.sleep(COURTESY)
                raise SystemExit(INPUT_ERROR)


def _listen_locally() -> None:
    """Let gloo listen to this machine alone if all processes are on it."""
    if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
        loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
        if loopback:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])


def _connect() -> TorchrunProcesses:
    end_with_parent(INTERRUPTED)
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        # The store has what the lost start has left there.
        raise InputError(
            "--max-restarts: a lost process does not come back; start the same command "
            "again, and it goes on"
        )
    _listen_locally()
    store, rank, count = next(rendezvous("env://", timeout=JOINING))
    store.set_timeout(FOREVER)
    distributed.init_process_group(
        "gloo",
        store=PrefixStore("mse_lab/group", store),
        rank=rank,
        world_size=count,
        timeout=FOREVER,
    )
    return TorchrunProcesses(store, rank)


@contextmanager
def join(say: Callable[[str], None]) -> Iterator[TorchrunProcesses]:
    """Join the processes that torchrun started.

    An error in one process ends all of them, as the end of torchrun does; one process
    prints it in a line.
    """
    processes = _connect()
    try:
        yield processes
    except SystemExit:
        raise
    except ProcessLost:
        if processes.first:
            say("a process was lost; the same command goes on from here")
        raise SystemExit(INTERRUPTED) from None
    except BaseException as error:
        # Nothing above catches it in these processes; see `console.exit_status_of`.
        end = ending(error)
        processes.complain(say, end)
        raise SystemExit(end.status) from None
    finally:
        distributed.destroy_process_group()
