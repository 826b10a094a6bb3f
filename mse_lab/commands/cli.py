"""The command line: reads its words, and runs the command that they name."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile

from mse_lab.commands.command_line import Parser
from mse_lab.console import COMMAND_NAME, exit_status_of
from mse_lab.errors import nearest, shorten
from mse_lab.project import VERSION

# Modules of `commands`, each with `HELP`, `add_arguments` and `execute`.
COMMANDS = {
    name: import_module(f"mse_lab.commands.{name}")
    for name in (
        *("demo", "init", "run", "figure", "claims"),
        *("advise", "compare", "report", "rollouts"),
    )
}

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
    # argparse takes an empty word for an option that is absent, and `=--` for no value.
    for word in takewhile(lambda word: word != "--training", words):
        if not word.strip() or (word.startswith("--") and word.endswith(("=", "=--"))):
            parser.error(f"{shorten(word)!r}: empty; give a value, or leave it out")
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        parser.error(f"no command {words[0]}; {nearest(words[0], [*COMMANDS])}")
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        chosen = commands.choices.get(arguments.command, parser)
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""

    def command() -> int:
        # Without words it says how it is used.
        arguments = parse((sys.argv[1:] if words is None else words) or ["--help"])
        return int(COMMANDS[arguments.command].execute(arguments))

    return exit_status_of(command)
