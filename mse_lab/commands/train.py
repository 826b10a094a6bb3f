"""`mse-lab train`: a study of training runs: predict, train, judge, draw."""

from argparse import Namespace
from pathlib import Path

from mse_lab.commands.command_line import OPTIONS, RESULTS, Parser, processes

HELP = "a study: does the predicted group size train best?"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("study", metavar="STUDY", help="group-size, or a .yaml file")
    help = "change a setting: eta=0.01"
    parser.add_argument("--set", **OPTIONS["--set"] | {"help": help})
    parser.add_options("--out")
    help = "the main grid alone, 3 seeds of 60 steps"
    parser.add_argument("--quick", action="store_true", help=help)
    help = "runs at a time, by default 1"
    parser.add_argument("--processes", type=processes, default=1, metavar="N", help=help)
    parser.add_options("--fresh")
    instead = parser.add_mutually_exclusive_group()
    help = "say what it will take"
    instead.add_argument("--dry-run", action="store_true", help=help)
    help = "train nothing; judge and draw the runs that are done"
    instead.add_argument("--so-far", action="store_true", help=help)
    help = "train one run, such as main-G8-seed0, once more; keep its checkpoints"
    instead.add_argument("--save", metavar="RUN", help=help)


def execute(arguments: Namespace) -> int:
    """Run a study: predict, train, judge, draw; or do what an option asks for instead."""
    from mse_lab.studies.training import parts
    from mse_lab.studies.training.report import write_training

    study, name = parts.find_study(arguments.study, arguments.set, quick=arguments.quick)
    folder = arguments.out / name
    if arguments.dry_run:
        print(parts.describe_costs(study, folder))
        return 0
    if arguments.save:
        print(parts.save_checkpoints(study, arguments.save, folder))
        return 0
    if not arguments.so_far:
        parts.run_missing(study, folder, arguments.processes, fresh=arguments.fresh)
    # The figure on the first page is this study's alone.
    first = folder == RESULTS / "group-size" and arguments.study == "group-size"
    print("\n".join(write_training(folder, study, Path("figures") if first else folder)))
    return 0
