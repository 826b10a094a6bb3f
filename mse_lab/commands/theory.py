"""`mse-lab theory`: judge the paper's statements about training on bandits."""

from argparse import Namespace
from pathlib import Path

from mse_lab.commands.command_line import RESULTS, Parser, folder_to_write, seed
from mse_lab.console import show_status, writing

HELP = "the paper's statements about training, judged on bandits"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    help = "default: results/theory, and figures/"
    parser.add_argument("--out", type=folder_to_write, metavar="DIR", help=help)
    help = "of all draws, by default 0"
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help=help)


def execute(arguments: Namespace) -> int:
    """Train bandits that can be enumerated; print and write the verdicts."""
    from mse_lab.studies.theory.effort import Effort
    from mse_lab.studies.theory.report import theory_screen, write_theory
    from mse_lab.studies.theory.study import study

    # A folder that cannot be written, or a missing package, is reported now, and not after
    # minutes of training.
    folder = arguments.out or RESULTS / "theory"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    results = study(Effort(arguments.seed), lambda part: show_status(f"theory: {part}"))
    show_status()
    write_theory(results, folder, folder if arguments.out else Path("figures"))
    print(theory_screen(results))
    print(f"{folder}: statements.csv, curves and the figure written")
    return 0
