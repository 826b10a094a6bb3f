"""The command line: reads its words, and runs the command that they name."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from mse_lab.commands.command_line import RESULTS, ROOT, Parser, refuse_empty_words
from mse_lab.commands.process import exit_status_of, set_up_console
from mse_lab.commands.training_options import mse_lab_words
from mse_lab.console import COMMAND_NAME
from mse_lab.errors import nearest
from mse_lab.version import VERSION

# Modules of `commands`, each with `HELP`, `add_arguments` and `execute`.
COMMAND_NAMES = (
    "demo",
    "init",
    "run",
    "figure",
    "claims",
    "advise",
    "compare",
    "report",
    "rollouts",
)
COMMANDS = {name: import_module(f"mse_lab.commands.{name}") for name in COMMAND_NAMES}

# Environment variables that say how OpenMP's threads wait.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

# Instead of 300,000; measured on idle and on busy processors (`results/COST.md`).
SPINS = "1000"

DESCRIPTION = "Measure how far policy-gradient estimates are from a model's true gradient."
EXAMPLES = """\
examples:
  mse-lab demo                 what an answer looks like, in seconds
  mse-lab init MODEL PROMPTS   write a probe for your model
  mse-lab run tiny/base        one measurement
  mse-lab advise tiny/base     which group size, which baseline
  mse-lab compare smollm2/icl --estimators '{name: constant, alpha: .2}'
                               any estimator, priced on a finished run
  mse-lab report tiny/base     all of it on one page
  mse-lab figure               Figure 4 from finished runs; --phase: why so
  mse-lab claims tiny/base     the paper's statements, judged by a run
  mse-lab advise tiny/base --checkpoints 'out/checkpoint-*'
                               the answers along a training, a line each
  mse-lab rollouts runs/x      what a trainer's logs tell; no model
  torchrun --nproc-per-node 8 run_mse.py run PROBE
                               one measurement, by eight processes
"""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the words of the command line."""
    parser = Parser(
        prog=COMMAND_NAME,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mse_lab {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_arguments(commands.add_parser(name, help=command.HELP))
    refuse_empty_words(parser, mse_lab_words(words))
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        parser.error(f"no command {words[0]}; {nearest(words[0], COMMAND_NAMES)}")
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        chosen = commands.choices.get(arguments.command, parser)
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def overview() -> str:
    """Name the commands and the probes, a line each."""
    from mse_lab.report.probe_list import list_probes
    from mse_lab.report.rendering import Part, as_text, screen_width

    commands = [[name, one.HELP] for name, one in COMMANDS.items()]
    head = f"commands; {COMMAND_NAME} COMMAND --help says how each is used:"
    parts = [Part(head, rows=commands), list_probes(ROOT, RESULTS)]
    return as_text(parts, screen_width())


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""

    def command() -> int:
        arguments = parse(sys.argv[1:] if words is None else words)
        if arguments.command is None:
            print(overview())
            return 0
        return int(COMMANDS[arguments.command].execute(arguments))

    return exit_status_of(command)


def _let_waiting_threads_sleep() -> None:
    """Set how long torch's threads spin before they sleep; call this before its import.

    OpenMP's default is milliseconds: on a busy processor a thread that spins takes time
    from the thread that it waits for. Without any spinning, waking a thread takes as long
    as a small layer does. The user's own settings stay.
    """
    if os.environ.keys().isdisjoint(WAITING):
        os.environ["GOMP_SPINCOUNT"] = SPINS


def start() -> NoReturn:
    """Run the command line and end the process."""
    set_up_console()
    _let_waiting_threads_sleep()
    sys.exit(main())


if __name__ == "__main__":
    start()
