"""`mse-lab list`: the probes, and whether their results stand."""

from argparse import Namespace

from mse_lab.commands.command_line import ROOT, Parser

HELP = "the probes, and whether their results stand"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_options("--out")


def execute(arguments: Namespace) -> int:
    """Print the probes."""
    from mse_lab.report.probe_list import list_probes

    print(list_probes(ROOT, arguments.out))
    return 0
