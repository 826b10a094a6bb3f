"""`mse-lab rollouts`: what a trainer's logs tell."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    LARGEST_SEED,
    Parser,
    completions,
    file_to_write,
    group_size,
    number,
    seconds,
)
from mse_lab.console import COMMAND_PREFIX, complain, show_status
from mse_lab.errors import InputError, nearest

HELP = "what a trainer's logs tell: values, zero-variance groups, lengths"

if TYPE_CHECKING:
    from mse_lab.api.rollouts import Rollouts

training_step = number(int, "step", 0, LARGEST_SEED, "1")


def limits(text: str) -> dict[str, float]:
    """Read `silent=0.5,truncated`; without a number the usual limit."""
    from mse_lab.trainer_logs.verdicts import LIMITS

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
    help = "names of your own columns: prompt=question,reward=score,step=..."
    parser.add_argument("--columns", metavar="OURS=YOURS,...", help=help)
    help = "completions of a group, where the logs do not name groups"
    parser.add_argument("--group-size", type=group_size, metavar="G", help=help)
    help = "limit on a completion's length, where the logs do not say which were cut"
    parser.add_argument("--max-tokens", type=completions, metavar="N", help=help)
    help = "to say what zero-variance groups cost in hours of a device"
    parser.add_argument("--seconds-per-completion", type=seconds, metavar="S", help=help)
    parser.add_options("--json")
    parser.add_argument("--markdown", action="store_true", help="for an issue or a page")
    help = "one page, with the figure"
    parser.add_argument("--html", type=file_to_write, metavar="FILE", help=help)
    help = "the figure: .png, .pdf or .svg"
    parser.add_argument("--figure", type=file_to_write, metavar="FILE", help=help)
    help = "write the completions of a step, with token ids, as `completions:` reads them"
    parser.add_argument("--completions", type=file_to_write, metavar="FILE", help=help)
    help = "write a probe of them; its scores can then be measured"
    parser.add_argument("--probe", type=file_to_write, metavar="FILE", help=help)
    help = "the checkpoint that drew them, for --probe"
    parser.add_argument("--model", metavar="MODEL", help=help)
    help = "the step of these completions, by default the first"
    parser.add_argument("--step", type=training_step, metavar="N", help=help)
    help = "exit with 1 where a verdict says LOOK: silent=0.5,truncated=0.1,copies,drift"
    parser.add_argument("--fail-on", type=limits, default={}, metavar="KEY[=X]", help=help)


def execute(arguments: Namespace) -> int:
    """Print what the logs tell; 1 if a share exceeds its limit."""
    from mse_lab.api.rollouts import rollouts
    from mse_lab.trainer_logs.general_form import parse_columns

    show_status("reading")
    found = rollouts(
        arguments.paths,
        columns=parse_columns(arguments.columns) if arguments.columns else None,
        group_size=arguments.group_size,
        max_tokens=arguments.max_tokens,
        seconds_per_completion=arguments.seconds_per_completion,
    )
    found = replace(found, limits=arguments.fail_on)
    show_status()
    _write(found, arguments)
    if arguments.json:
        print(json.dumps(found.summary, indent=2))
    elif arguments.markdown:
        from mse_lab.report.rollouts_report import rollouts_markdown

        print(rollouts_markdown(found))
    else:
        print(found)
    exceeded = [_exceeds(found, key) for key in arguments.fail_on]
    return int(any(exceeded))


def _write(found: Rollouts, arguments: Namespace) -> None:
    """Write the page and the figure that are asked for."""
    if arguments.figure:
        from mse_lab.report.drawing import save_figure
        from mse_lab.report.rollouts_page import compose_rollouts

        save_figure(lambda: compose_rollouts(found), arguments.figure)
    if arguments.html:
        from mse_lab.report.rollouts_page import write_rollouts_page

        write_rollouts_page(found, arguments.html)
    if arguments.completions or arguments.probe:
        _write_scored(found, arguments)


def _write_scored(found: Rollouts, arguments: Namespace) -> None:
    from mse_lab.trainer_logs.write_probe import choose, write_completions, write_probe

    probe, limit = arguments.probe, arguments.max_tokens
    if probe and not arguments.model:
        raise InputError("--probe needs --model: no log says which checkpoint drew it")
    prompts, step, left_out = choose(
        found.log.source, found.groups, arguments.step, texts=limit is not None
    )
    path = arguments.completions or probe.with_name(f"{probe.stem}-completions.jsonl")
    write_completions(path, prompts)
    files = [path]
    if probe:
        longest = limit or int(found.groups.columns.length_N.max())
        decode = _decoder(arguments.model)
        texts = write_probe(probe, path, prompts, arguments.model, longest, decode)
        files += [probe, texts]
    of_step = "" if step is None else f" of step {step}"
    print(
        f"{len(prompts):,} prompts x {len(prompts[0].completions)} completions{of_step}: "
        f"{', '.join(map(str, files))} written",
        file=sys.stderr,
    )
    if left_out:
        complain(f"{left_out} prompts have fewer completions at that step: left out")
    if probe:
        print(f"next: {COMMAND_PREFIX} run {probe}", file=sys.stderr)


def _decoder(model: str) -> Callable[[Sequence[int]], str]:
    def decode(tokens: Sequence[int]) -> str:
        from mse_lab.probe.foreign_code import load_extra

        load_extra("transformers", "measure", "--probe for prompts that are token ids")
        from mse_lab.policy.prompt_tokens import text_of_tokens

        return text_of_tokens(model, tokens)

    return decode


def _exceeds(found: Rollouts, key: str) -> bool:
    from mse_lab.trainer_logs.verdicts import verdicts_of

    verdict = verdicts_of(found)[key]
    if verdict is None:
        raise InputError(f"--fail-on {key}: these logs do not tell {key}; leave it out")
    if verdict.look:
        complain(f"{key}: {verdict.value:.3g} is above {verdict.limit:g}")
    return verdict.look
