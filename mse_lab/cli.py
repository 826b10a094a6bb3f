"""The command line: each command's name, and the process that carries it out."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from mse_lab import commands, training_commands
from mse_lab.command_line import parse
from mse_lab.console import conclude, take_over

# What tells OpenMP's threads how to wait.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

# Instead of 300,000, by measurement on idle and busy processors: `results/LOG.md`.
SPINS = "1000"

COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "init": commands.init,
    "run": commands.run,
    "plan": commands.plan,
    "train": training_commands.train,
    "figure": commands.figure,
    "claims": commands.claims,
    "advise": commands.advise,
    "report": commands.report,
    "analyse": commands.analyse,
    "theory": training_commands.theory,
    "along": training_commands.along,
    "list": commands.show_list,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""

    def command() -> int:
        arguments = parse(sys.argv[1:] if words is None else words)
        return COMMANDS[arguments.command](arguments)

    return conclude(command)


def _let_waiting_threads_sleep() -> None:
    """Before torch is imported, say how long its threads spin before they sleep.

    By default for milliseconds: where others use the processor, too, they keep the very
    thread from running that they are waiting for. Not at all, and waking them takes as long
    as small layers do. Whoever has said how they wait is obeyed.
    """
    if os.environ.keys().isdisjoint(WAITING):
        os.environ["GOMP_SPINCOUNT"] = SPINS


def start() -> NoReturn:
    """Run the command line as a process of its own: `mse-lab`, `python -m mse_lab`."""
    take_over()
    _let_waiting_threads_sleep()
    sys.exit(main())


if __name__ == "__main__":
    start()
