"""The reporters of transformers' trainer, for numbers that are not in its own log.

A callback cannot reach the reporters that the trainer made. W&B and trackio take numbers
through the run that is active; TRL logs its tables of completions so, and a second
reporter of trackio would begin another run. For all others a second reporter is made,
which writes to the same place.
"""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import get_reporting_integration_callbacks

# What a file of tensorboard's second writer ends in.
SUFFIX = ".mse"

# Libraries that log to the run that is active.
WITH_ACTIVE_RUN = ("wandb", "trackio")


def _newest_run(args: Any) -> str | None:
    """Find the folder that the trainer has just made for tensorboard's files."""
    runs = Path(args.output_dir, "runs").glob("*")
    return max(map(str, runs), key=lambda run: Path(run).stat().st_mtime, default=None)


class Reporters:
    """The places that a trainer reports to, the screen apart."""

    def __init__(self, args: Any) -> None:
        self._active = [name for name in args.report_to if name in WITH_ACTIVE_RUN]
        others = [name for name in args.report_to if name not in WITH_ACTIVE_RUN]
        self._second = [kind() for kind in get_reporting_integration_callbacks(others)]
        for reporter in self._second:
            # Tensorboard's: in another folder it would be another run. A file is named by
            # the second: without a suffix both writers may write into one.
            if hasattr(reporter, "logging_dir"):
                reporter.logging_dir = reporter.logging_dir or _newest_run(args)
                writer = reporter._SummaryWriter
                reporter._SummaryWriter = partial(writer, filename_suffix=SUFFIX)

    def report(
        self, numbers: Mapping[str, float], args: Any, state: Any, model: Any
    ) -> None:
        """Report numbers at this step, under names like those of the trainer's own."""
        for name in self._active:
            named = {f"train/{key}": value for key, value in numbers.items()}
            import_module(name).log(named | {"train/global_step": state.global_step})
        for reporter in self._second:
            reporter.on_log(args, state, None, logs=dict(numbers), model=model)

    def close(self) -> None:
        """Let tensorboard write its last numbers, which a queue may hold."""
        for reporter in self._second:
            if writer := getattr(reporter, "tb_writer", None):
                writer.close()
