"""`mse-lab report`: one page about runs."""

from argparse import Namespace

from mse_lab.commands.command_line import (
    Parser,
    compare_runs,
    existing_runs,
    output_folder,
    say_changes,
)

HELP = "one page about runs, in HTML"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add("runs")
    parser.add_file("default: RUN/report.html")


def execute(arguments: Namespace) -> int:
    """Write the page."""
    from mse_lab.report.page import write_report

    runs = existing_runs(arguments.runs)
    output = arguments.out or output_folder(runs[0]) / "report.html"
    changes = compare_runs(runs, arguments.runs)
    write_report(runs, output, [each.changed for each in changes if each.changed])
    say_changes(changes)
    print(f"{output} written")
    return 0
