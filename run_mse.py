"""Measure how far policy-gradient estimates are from the true gradient of a model.

python run_mse.py run tiny/base        one measurement
python run_mse.py figure               Figure 4 from finished runs
python run_mse.py list                 the probes and their results
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.checks import summary
from mse_lab.config import InputError, load_probe, probe_file, probe_name
from mse_lab.listing import list_probes

if TYPE_CHECKING:
    from mse_lab.run import Outcome

ROOT = Path(__file__).resolve().parent
FIGURE_4 = ("tiny/base", "tiny/instruct", "tiny/icl")
INTERRUPTED = 130


def run(arguments: argparse.Namespace) -> int:
    """Measure each probe; 1 if a built-in check failed."""
    paths = [probe_file(name, ROOT) for name in arguments.probes]
    probes = [load_probe(path, arguments.set) for path in paths]
    from mse_lab.run import run_probe  # imports torch, which `figure` and `list` do without

    failed = False
    for path, probe in zip(paths, probes, strict=True):
        name = probe_name(path, ROOT)
        folder = arguments.out / name
        outcome = run_probe(name, probe, folder, ROOT, fresh=arguments.fresh)
        failed |= not report(folder, outcome)
    return int(failed)


def report(folder: Path, outcome: Outcome) -> bool:
    """Say on the screen what became of a run; return whether its checks hold."""
    held = all(check.ok for check in outcome.checks)
    state = "finished before, left as it is (--fresh starts over)"
    print(f"{folder}: {state if outcome.found else 'results written'}")
    print(summary(outcome.checks))
    for warning in outcome.warnings:
        print(f"warning: {warning}")
    if not held:
        print(
            f"run_mse.py: {folder}: a built-in check FAILED; do not rely on its numbers",
            file=sys.stderr,
        )
    return held


def figure(arguments: argparse.Namespace) -> int:
    """Draw Figure 4."""
    from mse_lab.figure import draw_figure

    runs = arguments.runs or [ROOT / "results" / name for name in FIGURE_4]
    outputs = (
        [arguments.out]
        if arguments.out
        else [ROOT / "figures" / f"figure4{suffix}" for suffix in (".png", ".pdf")]
    )
    for output in outputs:
        draw_figure(runs, output)
        print(f"{output} written")
    return 0


def show_list(arguments: argparse.Namespace) -> int:
    """List the probes."""
    print(list_probes(ROOT, arguments.out))
    return 0


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="run_mse.py", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("run", help="one measurement per probe")
    one.add_argument(
        "probes", nargs="+", metavar="PROBE", help="tiny/base, or a path to a .yaml"
    )
    one.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, such as pool.replicate=128",
    )
    one.add_argument(
        "--out",
        type=Path,
        default=ROOT / "results",
        metavar="DIR",
        help="root of the results (default: results/)",
    )
    one.add_argument("--fresh", action="store_true", help="start over")
    one.set_defaults(command=run)
    one = commands.add_parser("figure", help="Figure 4 from finished runs")
    one.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of results")
    one.add_argument("--out", type=Path, metavar="FILE", help=".png, .pdf or .svg")
    one.set_defaults(command=figure)
    one = commands.add_parser("list", help="the probes, and whether their results stand")
    one.add_argument(
        "--out",
        type=Path,
        default=ROOT / "results",
        metavar="DIR",
        help="root of the results (default: results/)",
    )
    one.set_defaults(command=show_list)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    arguments = parse(words)
    try:
        return int(arguments.command(arguments))
    except InputError as error:
        print(f"run_mse.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("run_mse.py: interrupted; run it again to go on from here", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
