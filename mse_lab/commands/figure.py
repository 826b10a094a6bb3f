"""`mse-lab figure`: Figure 4 from finished runs, or a figure that explains it."""

from argparse import Namespace
from pathlib import Path

from mse_lab.commands.command_line import (
    Parser,
    add_output_file,
    add_run,
    find_run,
    output_folder,
)
from mse_lab.errors import InputError

HELP = "Figure 4 from finished runs"

# Other figures, and what they show.
INSTEAD = {
    "phase": "on which prompts a baseline near the value helps",
    "regimes": "runs where it helps above those where it hurts, and why",
}

# The runs that are drawn by default; those of the lenient reward in `regimes` only.
FIGURE_4 = ("tiny/base", "tiny/instruct", "tiny/icl")
LENIENT = ("lenient/base", "lenient/instruct", "lenient/icl")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    add_run(parser, "runs", "*")
    add_output_file(parser, ".png, .pdf or .svg")
    parser.set_defaults(kind="figure4")
    instead = parser.add_mutually_exclusive_group()
    for kind, shows in INSTEAD.items():
        instead.add_argument(
            f"--{kind}",
            action="store_const",
            dest="kind",
            const=kind,
            help=f"instead of Figure 4, {shows}",
        )
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
    from mse_lab.report.regimes_figure import compose_regimes
    from mse_lab.results.finished_run import read_tables

    if arguments.training:
        return draw_training(arguments)
    kind, folders = arguments.kind, arguments.runs
    if not folders:
        names = (*FIGURE_4, *LENIENT) if kind == "regimes" else FIGURE_4
        folders = [find_run(name) for name in names]
    # Figures of a user's runs lie in the folder of the first one.
    target = output_folder(arguments.runs[0]) if arguments.runs else Path("figures")
    runs = [read_tables(folder) for folder in folders]
    dots = [] if kind == "figure4" else read_dots(folders)
    composers = {
        "figure4": lambda: compose(runs),
        "phase": lambda: compose_phase(dots),
        "regimes": lambda: compose_regimes(runs, dots),
    }
    for output in outputs(arguments, target / kind):
        save_figure(composers[kind], output)
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
