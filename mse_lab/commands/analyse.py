"""`mse-lab analyse`: the tables of a run, or of anybody's pools, at other settings."""

from argparse import Namespace

from mse_lab.commands.command_line import Parser, find_run, folder_to_write, output_folder

HELP = "the tables of a run, or of anybody's pools, at other settings"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    help = "a run, or a file of pools"
    parser.add_argument("source", type=find_run, metavar="RUN|POOLS.npz", help=help)
    parser.add_options("--set")
    help = "default: analysis/ in the run's folder, or a folder named after the file"
    parser.add_argument("--out", type=folder_to_write, metavar="DIR", help=help)


def execute(arguments: Namespace) -> int:
    """Write the tables."""
    from mse_lab.api.reanalysis import reanalyse
    from mse_lab.results.folder import ResultsFolder

    source = arguments.source
    result = reanalyse(source, arguments.set)
    if source.is_dir():
        default = output_folder(source) / "analysis"
    else:
        default = source.with_suffix("")
    folder = arguments.out or default
    ResultsFolder(folder).write_tables(result, list(result.tables))
    print(f"{folder}: {', '.join(result.tables)} written")
    for warning in result.warnings:
        print(f"warning: {warning}")
    return 0
