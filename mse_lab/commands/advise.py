"""`mse-lab advise`: which group size and baseline suit a run's model and prompts."""

from argparse import Namespace

from mse_lab.command_line import (
    Parser,
    add_json,
    add_run,
    completions,
    group_sizes,
    output_folder,
)
from mse_lab.errors import InputError

HELP = "which group size, which baseline"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    add_run(parser, "run")
    help = "group sizes to price, such as 8,16"
    parser.add_argument("--at", type=group_sizes, default=[], metavar="G,...", help=help)
    help = (
        "completions N that errors are stated for, by default 1024; with --allocate, "
        "those of one step, by default the recommended G for each prompt"
    )
    parser.add_argument("--budget", type=completions, metavar="N", help=help)
    help = "instead, how many completions each prompt should get"
    parser.add_argument("--allocate", action="store_true", help=help)
    add_json(parser)


def execute(arguments: Namespace) -> int:
    """Print and write the advice, or the allocation."""
    from mse_lab.answers.advice import BUDGET
    from mse_lab.report.advice_files import advise_run
    from mse_lab.report.allocation_report import allocate_run

    run, budget, place = arguments.run, arguments.budget, output_folder(arguments.run)
    if arguments.allocate:
        if arguments.at:
            raise InputError("--at prices one G for all; leave it out with --allocate")
        print(allocate_run(run, budget, place, as_json=arguments.json))
    else:
        budget = budget or BUDGET
        print(advise_run(run, arguments.at, budget, place, as_json=arguments.json))
    return 0
