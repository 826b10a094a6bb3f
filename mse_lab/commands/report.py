"""`mse-lab report`: one page about runs."""

from argparse import Namespace

from mse_lab.commands.command_line import Parser, add_output_file, add_run, output_folder

HELP = "one page about runs, in HTML"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    add_run(parser, "runs", "+")
    add_output_file(parser, "default: RUN/report.html")


def execute(arguments: Namespace) -> int:
    """Write the page."""
    from mse_lab.report.page import write_report

    output = arguments.out or output_folder(arguments.runs[0]) / "report.html"
    write_report(arguments.runs, output)
    print(f"{output} written")
    return 0
