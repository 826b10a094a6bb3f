"""`mse-lab figure`: Figure 4 from finished runs, or a figure that explains it."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from mse_lab.commands.command_line import Parser, find_run, output_folder
from mse_lab.errors import InputError

HELP = "Figure 4 from finished runs"

# The runs that are drawn by default.
FIGURE_4 = ("tiny/base", "tiny/instruct", "tiny/icl")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_run("runs", "*")
    parser.add_output_file(".png, .pdf or .svg")
    instead = parser.add_mutually_exclusive_group()
    shows = "instead of Figure 4, on which prompts a baseline near the value helps"
    instead.add_argument("--phase", action="store_true", help=shows)
    instead.add_argument(
        "--training",
        type=find_run,
        metavar="STUDY",
        help="instead, held-out J along the runs of a training study",
    )


def execute(arguments: Namespace) -> int:
    """Draw the figure."""
    from mse_lab.report.drawing import save_figure
    from mse_lab.report.figure_4 import compose
    from mse_lab.report.phase_diagram import compose_phase, read_dots
    from mse_lab.results.finished_run import read_tables

    if arguments.training:
        return draw_training(arguments)
    folders = arguments.runs or [find_run(name) for name in FIGURE_4]
    # Figures of a user's runs lie in the folder of the first one.
    target = output_folder(arguments.runs[0]) if arguments.runs else Path("figures")
    if arguments.phase:
        draw = partial(compose_phase, read_dots(folders))
    else:
        draw = partial(compose, [read_tables(folder) for folder in folders])
    for output in outputs(arguments, target / ("phase" if arguments.phase else "figure4")):
        save_figure(draw, output)
        print(f"{output} written")
    return 0


def outputs(arguments: Namespace, stem: Path) -> list[Path]:
    """Give the files to write: the one that was asked for, or two of this stem."""
    return [arguments.out] if arguments.out else [Path(f"{stem}.png"), Path(f"{stem}.pdf")]


def draw_training(arguments: Namespace) -> int:
    """Draw a training study along its steps."""
    from mse_lab.studies.training.training_curves import draw_curves

    if arguments.runs:
        raise InputError("figure --training draws one study; leave the runs out")
    study = arguments.training
    for output in outputs(arguments, output_folder(study) / "along"):
        draw_curves(study, output)
        print(f"{output} written")
    return 0
