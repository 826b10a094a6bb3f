"""`mse-lab compare`: price any estimators on finished runs, without a model."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    Parser,
    any_group_size,
    compare_runs,
    completions,
    existing_runs,
    say_changes,
)
from mse_lab.commands.training_options import read_entry
from mse_lab.console import show_status
from mse_lab.formatting import NONE, percent, with_interval

if TYPE_CHECKING:
    from mse_lab.report.rendering import Part
    from mse_lab.results.comparison import Compared

HELP = "any estimators, your own too, priced on finished runs; no model"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add("runs")
    help = "a name, MODULE:FUNCTION, or an entry of a probe: '{name: pass-at-k, k: 4}'"
    parser.add_argument(
        "--estimators", nargs="+", required=True, metavar="ENTRY", help=help
    )
    help = "group sizes that divide the runs' largest; by default the runs' own"
    parser.add_argument(
        "--G", nargs="+", type=any_group_size, default=(), metavar="SIZE", help=help
    )
    help = "completions of a step, for its progress; by default the probe's training"
    parser.add_argument("--completions-per-step", type=completions, metavar="N", help=help)
    parser.add("--json")


def execute(arguments: Namespace) -> int:
    """Print what the estimators' errors are."""
    from mse_lab.report.rendering import as_text
    from mse_lab.results.comparison import compare
    from mse_lab.results.files import as_data
    from mse_lab.results.finished_run import read_run

    entries = [read_entry(text, "--estimators") for text in arguments.estimators]
    rows: list[Compared] = []
    folders = existing_runs(arguments.runs)
    for folder in folders:
        show_status(f"{folder}: comparing")
        run = read_run(folder)
        own = run.setting.completions_per_step if run.setting.given else None
        rows += compare(run, entries, arguments.G, arguments.completions_per_step or own)
    show_status()
    say_changes(compare_runs(folders, arguments.runs), as_json=arguments.json)
    if arguments.json:
        print(json.dumps(as_data(rows), indent=2))
    else:
        by_run = {row.run: [one for one in rows if one.run == row.run] for row in rows}
        print(as_text([_part(*each) for each in by_run.items()]))
    return 0


def _part(run: str, rows: Sequence[Compared]) -> Part:
    from mse_lab.report.rendering import Part

    cells = [
        [
            f"{row.group_size:>2}  {row.estimator}",
            with_interval(row.over_grpo) if row.over_grpo else NONE,
            with_interval(row.over_oracle) if row.over_oracle else NONE,
            percent(row.progress) if row.progress else NONE,
        ]
        for row in rows
    ]
    heads = [" G  estimator", "over GRPO-type", "over the oracle", "progress"]
    used = [at for at, column in enumerate(zip(*cells, strict=True)) if {*column} != {NONE}]
    lacking: dict[tuple[str, str], list[str]] = {}
    for one in rows:
        if one.why:
            lacking.setdefault((one.estimator, one.why), []).append(str(one.group_size))
    notes = [
        f"{name} at G = {', '.join(sizes)}: {why}" for (name, why), sizes in lacking.items()
    ]
    laws = [one.agrees for one in rows if one.agrees is not None]
    notes += [f"Replicates and law agree in {sum(laws)} of {len(laws)}."] if laws else []
    notes += [
        f"They differ for {one.estimator} at G = {one.group_size}"
        + (": is it declared as it is?" if ":" in one.estimator else ".")
        for one in rows
        if one.agrees is False
    ]
    return Part(
        f"{run}: the squared error over that of others on the same groups",
        notes,
        [[row[at] for at in used] for row in cells],
        [heads[at] for at in used],
    )
