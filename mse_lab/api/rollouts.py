"""Rollouts: summarise the logs that a trainer has written; no model, no torch.

import mse_lab
rollouts = mse_lab.rollouts("runs/x")
print(rollouts)  # the screen of `mse-lab rollouts`
rollouts.summary["zero_variance"], rollouts.prompts, rollouts.forecast
rollouts.plot().savefig("rollouts.png")
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mse_lab.errors import LARGEST_SIZE, InputError, is_count, is_share, one_line, shown
from mse_lab.logs.forms import check_columns
from mse_lab.logs.read_logs import read_log
from mse_lab.logs.reward_groups import make_groups
from mse_lab.logs.summary import Summary
from mse_lab.logs.verdicts import verdicts_as_dicts

if TYPE_CHECKING:
    from mse_lab.report.drawing import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Rollouts(Summary):
    """A trainer's rollouts; `print` shows the screen of `mse-lab rollouts`."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All numbers, under the names that `mse-lab rollouts --json` has."""
        return self.as_dict() | {"verdicts": verdicts_as_dicts(self)}

    @cached_property
    def forecast(self) -> pd.DataFrame:
        """Share of zero-variance groups at each size up to that of the log."""
        names = ("zero_variance", "zero_variance_low", "zero_variance_high")
        rows = [(size, *share) for size, share in self.numbers["forecast"].items()]
        return pd.DataFrame(rows, columns=["group_size", *names])

    def plot(self) -> "Figure":
        """Draw the figure of the log: a notebook shows it, `savefig` writes it."""
        from mse_lab.report.drawing import show_figure
        from mse_lab.report.rollouts_figure import compose_rollouts

        return show_figure(lambda: compose_rollouts(self))

    def __str__(self) -> str:
        from mse_lab.report.rollouts_report import rollouts_text

        return rollouts_text(self)

    def __repr__(self) -> str:
        from mse_lab.report.rollouts_report import rollouts_headline

        return f"Rollouts of {one_line(self.groups.log.name)}: {rollouts_headline(self)}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _paths(given: Any) -> list[Path]:
    one = isinstance(given, str | Path) or not isinstance(given, Iterable)
    paths = [given] if one else [*given]
    if paths and all(isinstance(path, str | Path) for path in paths):
        return [Path(path) for path in paths]
    raise InputError(f"source = {shown(given)}: give a folder, files, or a data frame")


def rollouts(
    source: str | Path | Iterable[str | Path] | pd.DataFrame,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    group_size: int | None = None,
    partial: bool = False,
    level: float = 0.95,
    outcome: str | None = None,
) -> Rollouts:
    """Summarise the rollouts that a trainer has written.

    Args:
        source: A folder, files, or a data frame, in a form that `mse-lab rollouts` reads.
        columns: The file's columns, dotted where they are nested, by the names of a
            record (`records/records.py`): `prompt_id`, `prompt`, `group`, `step`, `reward`
            (several add up, `0.5*format` by a weight), `completion`, `token_ids`, `mask`,
            `length`, `truncated`, `log_probs`, `engine_log_probs`, `advantage`.
        group_size: G, where no column identifies a group: they are blocks, by order.
        partial: Whether a file that ends early is read up to there, and a step's file that
            is no log and completions without a reward, however many, are left out.
        level: Coverage of the intervals, between 0 and 1.
        outcome: The part of the reward that says whether a completion is right; by default
            the one with the fewest values.

    Raises:
        InputError: There are no rollouts, or they cannot be read; the message says why.
    """
    if not is_share(level) or level == 1:
        raise InputError(f"level = {shown(level)}: give a share such as 0.95")
    if not (group_size is None or (is_count(group_size) and group_size <= LARGEST_SIZE)):
        to = f"give a whole number from 1 to {LARGEST_SIZE}"
        raise InputError(f"group_size = {shown(group_size)}: {to}")
    named = check_columns({} if columns is None else columns)
    given = source if isinstance(source, pd.DataFrame) else _paths(source)
    log = read_log(given, named, partial_ok=partial)
    return Rollouts.of(make_groups(log, group_size), level, outcome)
