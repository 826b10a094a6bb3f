"""`mse-lab claims`: judge the paper's statements by runs."""

from argparse import Namespace

from mse_lab.commands.command_line import (
    Parser,
    compare_runs,
    existing_runs,
    output_folder,
    say_changes,
)

HELP = "the paper's statements, judged by runs"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add("runs")


def execute(arguments: Namespace) -> int:
    """Print and write the verdicts."""
    from mse_lab.answers.claims import claims_table
    from mse_lab.answers.statements import judge_runs
    from mse_lab.report.claims_report import claims_screen
    from mse_lab.results.finished_run import read_run
    from mse_lab.results.folder import ResultsFolder

    folders = existing_runs(arguments.runs)
    runs = [read_run(folder) for folder in folders]
    judged = judge_runs(runs)
    say_changes(compare_runs(folders, arguments.runs))
    print(claims_screen(judged))
    for made_of, run in zip(folders, runs, strict=True):
        folder = output_folder(made_of)
        about_run = [claim for claim in judged if run.name in claim.runs]
        ResultsFolder(folder).write("claims.csv", claims_table(about_run))
        print(f"{folder}: claims.csv (reasons, by group size) written")
    return 0
