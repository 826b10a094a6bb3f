"""`mse-lab init`: write a probe."""

from argparse import Namespace

from mse_lab.commands.command_line import ROOT, Parser

HELP = "write a probe for a model and prompts of yours"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("model", metavar="MODEL", help="a checkpoint, or a Hub name")
    parser.add_argument(
        "prompts",
        metavar="PROMPTS",
        help="JSONL, a problem and its answer a line; CSV, Parquet, or a Hub data set",
    )
    for field in ("problem", "answer"):
        help = f"the column of the {field}; by default by usual names"
        parser.add_argument(f"--{field}", metavar="COLUMN", help=help)
    parser.add_output_file("the probe; default: MODEL's name, .yaml")


def execute(arguments: Namespace) -> int:
    """Write the probe."""
    from mse_lab.probe.new_probe import write_new

    given = {"problem": arguments.problem, "answer": arguments.answer}
    named = {field: column for field, column in given.items() if column is not None}
    print(write_new(arguments.model, arguments.prompts, arguments.out, ROOT, named))
    return 0
