"""The reporters of transformers' trainer, for numbers that are not of its own log.

A callback has no handle on those that the trainer made. To W&B and trackio anybody may log
by the run that is active, as TRL does its tables of completions; a second reporter of
trackio would begin another run. Elsewhere a second reporter joins in the same place.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import get_reporting_integration_callbacks

OF_THE_RUN = ("wandb", "trackio")


def _newest_run(args: Any) -> str | None:
    """Find the folder of tensorboard's files that the trainer has just made."""
    runs = Path(args.output_dir, "runs").glob("*")
    return max(map(str, runs), key=lambda run: Path(run).stat().st_mtime, default=None)


class Reporters:
    """Where a trainer reports to, beside the screen."""

    def __init__(self, args: Any) -> None:
        """Find them, of the trainer's settings."""
        self._joined = [name for name in args.report_to if name in OF_THE_RUN]
        apart = [name for name in args.report_to if name not in OF_THE_RUN]
        self._second = [kind() for kind in get_reporting_integration_callbacks(apart)]
        for one in self._second:
            # Tensorboard's: in a folder of its own it would be another run.
            if getattr(one, "logging_dir", "") is None:
                one.logging_dir = _newest_run(args)

    def report(
        self, numbers: Mapping[str, float], args: Any, state: Any, model: Any
    ) -> None:
        """Report numbers at this step, named as the trainer's own are."""
        for name in self._joined:
            named = {f"train/{key}": value for key, value in numbers.items()}
            import_module(name).log(named | {"train/global_step": state.global_step})
        for one in self._second:
            one.on_log(args, state, None, logs=dict(numbers), model=model)

    def close(self) -> None:
        """Have tensorboard's files written to their end: a queue may hold the last ones."""
        for one in self._second:
            if writer := getattr(one, "tb_writer", None):
                writer.close()
