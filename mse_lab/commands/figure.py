"""`mse-lab figure`: Figure 4 from finished runs, or the figure that explains it."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from mse_lab.commands.command_line import Parser, compare_runs, existing_runs, output_folder

HELP = "Figure 4 from finished runs"

# The runs that are drawn by default.
FIGURE_4_RUNS = ("tiny/base", "tiny/instruct", "tiny/icl")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_run("runs", "*")
    parser.add_output_file(".png, .pdf or .svg")
    help = "instead of Figure 4, on which prompts a baseline near the value helps"
    parser.add_argument("--phase", action="store_true", help=help)
    parser.add_argument("--dark", action="store_true", help="light on a dark ground")


def execute(arguments: Namespace) -> int:
    """Draw the figure."""
    from mse_lab.report.drawing import save_figure
    from mse_lab.report.figure_4 import compose
    from mse_lab.report.phase_diagram import compose_phase, read_dots
    from mse_lab.results.finished_run import read_tables

    names = arguments.runs or FIGURE_4_RUNS
    folders = existing_runs(names)
    # Figures of a user's runs lie in the folder of the first one.
    target = output_folder(folders[0]) if arguments.runs else Path("figures")
    if arguments.phase:
        draw = partial(compose_phase, read_dots(folders))
    else:
        draw = partial(compose, [read_tables(folder) for folder in folders])
    stem = target / ("phase" if arguments.phase else "figure4")
    files = [Path(f"{stem}.png"), Path(f"{stem}.pdf")]
    outputs = [arguments.out] if arguments.out else files
    for output in outputs:
        save_figure(draw, output, dark=arguments.dark)
    compare_runs(folders, names).say()
    print(*(f"{output} written" for output in outputs), sep="\n")
    if not arguments.runs:
        print(
            f"of {', '.join(FIGURE_4_RUNS)} in {folders[0].parents[1]}; RUN... draws others"
        )
    return 0
