"""The options that say what the user trains with, and what they amount to."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from mse_lab.commands.command_line import Parser, any_group_size, completions, processes
from mse_lab.errors import InputError, listed, shown

if TYPE_CHECKING:
    from mse_lab.config.schema import Training


# Options that a trainer's words would swallow without a sign: no trainer has them.
OURS = ("--trainer", "--G", "--estimator", "--completions-per-step", "--json")


class _Words(argparse.Action):
    """Keeps a trainer's words, all that follow; refuses an option of ours among them."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, *_: Any) -> None:
        """Keep them."""
        for name in (word.partition("=")[0] for word in values):
            if name in OURS:
                raise InputError(
                    f"--training: takes all that follows; put {name} before it"
                )
        namespace.training = values


def add_training(parser: Parser) -> None:
    """Add the options of a training."""
    help = "trl, rloo, verl or other; by default the probe's, else TRL with its defaults"
    parser.add_argument("--trainer", metavar="NAME", help=help)
    help = "the group size that you train with"
    parser.add_argument("--G", type=any_group_size, metavar="SIZE", help=help)
    help = "the estimator that you train with, as in a probe: a name or {name: ..., k: 4}"
    parser.add_argument("--estimator", metavar="ENTRY", help=help)
    help = "the trainer's settings, a file of YAML or JSON; TRL's without --trainer"
    parser.add_argument("--config", metavar="FILE", help=help)
    help = "processes that TRL trains in, default 1"
    parser.add_argument("--processes", type=processes, metavar="N", help=help)
    help = "completions of a step, where no settings say so"
    parser.add_argument("--completions-per-step", type=completions, metavar="N", help=help)
    help = "the words that the trainer itself gets, all that follow"
    nargs = argparse.REMAINDER
    parser.add_argument(
        "--training", nargs=nargs, action=_Words, metavar="WORDS", help=help
    )


def read_entry(text: str, option: str = "--estimator") -> str | dict[str, Any]:
    """Read an estimator's entry as in a probe."""
    from mse_lab.records.plain_text import parse_yaml

    entry = text if ":" in text and "{" not in text else parse_yaml(text, option)
    named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
    if not (named or (isinstance(entry, str) and entry)):
        raise InputError(
            f"{option}: {shown(text)} is no entry; give a name such as grpo-std, or "
            "'{name: affine, alpha: 0.2, lambda: 0.1}'"
        )
    return entry


def read_training_options(
    arguments: Namespace, of_probe: Training | None
) -> Training | None:
    """Read what the user trains with: the options, over the probe's `training`."""
    from mse_lab.config.schema import Training
    from mse_lab.config.trainers import TRAINERS

    options = {
        "trainer": arguments.trainer,
        "config": arguments.config,
        "words": arguments.training,
        "completions_per_step": arguments.completions_per_step,
        "estimator": arguments.estimator and read_entry(arguments.estimator),
        "processes": arguments.processes,
        "size": arguments.G,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        return of_probe
    # One that is not named, and of which an estimator is all, is another.
    alone = "estimator" in given and not {"config", "words"} & given.keys()
    usual = of_probe.trainer if of_probe else "other" if alone else "trl"
    name = given.setdefault("trainer", usual)
    if (trainer := TRAINERS.get(name)) is None:
        raise InputError(
            f"--trainer: no trainer {name}; known: {listed([*TRAINERS])}; for another one "
            "give --G, --completions-per-step and --estimator alone"
        )
    if "processes" in given and "processes" not in trainer.settings:
        raise InputError(
            f"--processes: the batch of {trainer.title} is that of all processes; leave it "
            "out"
        )
    if "size" in given:
        given[trainer.size] = given.pop("size")
    own = of_probe.model_dump() if of_probe and of_probe.trainer == name else {}
    return Training(**own | given)
