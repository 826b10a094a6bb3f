"""`mse-lab report`: one page about runs."""

from argparse import Namespace

from mse_lab.commands.command_line import Parser, output_folder

HELP = "one page about runs, in HTML"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_run("runs", "+")
    parser.add_output_file("default: RUN/report.html")


def execute(arguments: Namespace) -> int:
    """Write the page."""
    from mse_lab.report.page import write_report

    output = arguments.out or output_folder(arguments.runs[0]) / "report.html"
    write_report(arguments.runs, output)
    print(f"{output} written")
    return 0
