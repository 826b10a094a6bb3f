"""`mse-lab rollouts`: what a trainer's logs tell."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError, Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import Parser, group_size
from mse_lab.console import complain, show_status
from mse_lab.errors import InputError, nearest
from mse_lab.formatting import number

HELP = "what a trainer's logs tell: values, zero-variance groups, lengths"

if TYPE_CHECKING:
    from mse_lab.api.rollouts import Rollouts


def limits(text: str) -> dict[str, float]:
    """Read `silent=0.5,truncated`; without a number the usual limit."""
    from mse_lab.logs.verdicts import LIMITS

    shares = {}
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if key not in LIMITS:
            raise ArgumentTypeError(f"{part!r}: {nearest(key, [*LIMITS])}")
        try:
            shares[key] = float(value or LIMITS[key])
        except ValueError:
            shares[key] = -1.0
        if not 0 <= shares[key] <= 1:
            raise ArgumentTypeError(f"{part!r}: give a share from 0 to 1, {key}=0.5")
    return shares


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    help = "a folder that a trainer writes to, or files: JSONL, Parquet, CSV"
    parser.add_argument("paths", nargs="+", type=Path, metavar="FOLDER|FILE", help=help)
    help = "the columns of the files: prompt_id=uid,reward=score,step=..."
    parser.add_argument("--columns", metavar="OURS=YOURS,...", help=help)
    help = "completions of a group, where no column identifies groups"
    parser.add_argument("--group-size", type=group_size, metavar="G", help=help)
    help = (
        "read a file that ends early up to there; leave out steps and rewards that are lost"
    )
    parser.add_argument("--partial", action="store_true", help=help)
    help = "the part of the reward that says whether a completion is right"
    parser.add_argument("--outcome", metavar="PART", help=help)
    parser.add("--json")
    parser.add_argument("--markdown", action="store_true", help="for an issue or a page")
    help = "exit with 1 where a verdict says LOOK: silent=0.5,truncated=0.1,drift,parts"
    parser.add_argument("--fail-on", type=limits, default={}, metavar="KEY[=X]", help=help)


def execute(arguments: Namespace) -> int:
    """Print what the logs tell; 1 if a share exceeds its limit."""
    from mse_lab.api.rollouts import rollouts
    from mse_lab.logs.forms import parse_columns

    show_status("reading")
    logs = rollouts(
        arguments.paths,
        columns=parse_columns(arguments.columns) if arguments.columns else None,
        group_size=arguments.group_size,
        partial=arguments.partial,
        outcome=arguments.outcome,
    )
    logs = replace(logs, limits=arguments.fail_on)
    show_status()
    if arguments.json:
        print(json.dumps(logs.summary, indent=2))
    elif arguments.markdown:
        from mse_lab.report.rollouts_report import rollouts_markdown

        print(rollouts_markdown(logs))
    else:
        print(logs)
    exceeded = [_exceeds(logs, key) for key in arguments.fail_on]
    return int(any(exceeded))


def _exceeds(logs: Rollouts, key: str) -> bool:
    from mse_lab.logs.verdicts import verdicts_of

    verdict = verdicts_of(logs).get(key)
    if verdict is None:
        raise InputError(f"--fail-on {key}: these logs do not tell {key}; leave it out")
    if verdict.look:
        complain(f"{key}: {number(verdict.value)} is above {verdict.limit:g}")
    return verdict.look
