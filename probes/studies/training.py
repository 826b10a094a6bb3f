"""Does training obey 1/(1 + E)? TRL's trainer over group sizes, step sizes, estimators.

    pip install -e ".[train]"
    python -m probes.studies.training SETTINGS.yaml [--so-far] [--out DIR]

A step along an estimate with error E = MSE / ||g||^2 gains, at its own best size, 1/(1 + E)
of what the true gradient would (`mse_lab/mse/loss.py`); `training_law` has what follows
from that, and `training_runs` what is trained. `prediction.csv` is written first. Each run,
one row of `runs.csv`, is appended when it ends: a start after a kill makes the others.
`comparison.csv`, `law.csv` and `training.png` are of what has run; of held-out prompts
`comparison-unseen.csv`, each arm at the step size that is best for them, and
`comparison-unseen-same.csv`, at the one that is best for trained prompts.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from mse_lab.console import exit_status_of
from mse_lab.data.prompts import load_prompts
from mse_lab.errors import InputError
from mse_lab.project import PROJECT
from mse_lab.report.drawing import save_figure
from mse_lab.results.files import write_file
from mse_lab.run.processes import lock
from probes.studies.training_design import Run, Settings, load_settings, runs_of
from probes.studies.training_law import compose, judge, predict, read_all_constants
from probes.studies.training_runs import Task, train

# Tables of held-out prompts, and by which J an arm's step size is chosen.
UNSEEN = {"comparison-unseen.csv": "unseen", "comparison-unseen-same.csv": "step"}


class RunsFile:
    """`runs.csv`: a row is appended when its run ends, and never changed."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self._digest = path, settings.digest
        kinds = ("step", "unseen") if settings.held_out else ("step",)
        values = [f"{kind}_{step}" for kind in kinds for step in (0, *settings.steps)]
        self._columns = [*Run._fields, *values, "seconds", "digest"]

    def read(self) -> pd.DataFrame:
        """Read the rows that are whole: a kill may have cut the last one."""
        if not self.path.exists():
            return pd.DataFrame(columns=self._columns)
        whole, end, rest = self.path.read_text("utf-8").rpartition("\n")
        if rest:
            self.path.write_text(whole + end, "utf-8")
        table = pd.read_csv(self.path) if whole else pd.DataFrame(columns=self._columns)
        if list(table) != self._columns or (table["digest"] != self._digest).any():
            raise InputError(
                f"{self.path}: of other settings; name another folder with --out"
            )
        return table

    def missing(self, runs: Sequence[Run]) -> list[Run]:
        """List the runs that have no row."""
        done = {Run(*row) for row in self.read()[[*Run._fields]].itertuples(index=False)}
        return [run for run in runs if run not in done]

    def append(self, run: Run, values: Sequence[float], seconds: float) -> None:
        """Append the row of a run."""
        fields = [*run, *values, round(seconds, 1), self._digest]
        new = not self.path.exists() or not self.path.stat().st_size
        row = pd.DataFrame([fields], columns=self._columns)
        row.to_csv(self.path, mode="a", header=new, index=False, lineterminator="\n")


def train_missing(file: RunsFile, settings: Settings) -> None:
    """Train the runs that have no row; append each when it ends."""
    todo, task = file.missing(runs_of(settings)), Task(settings)
    for left, run in enumerate(todo, 1 - len(todo)):
        began = time.monotonic()
        file.append(run, train(run, task), time.monotonic() - began)
        print(f"{' '.join(map(str, run))}: {-left} left", flush=True)


def study(settings: Settings, folder: Path, so_far: bool) -> None:
    """Predict, train what is missing, compare, draw."""
    prompts = len(load_prompts(settings.load_probe().prompts, PROJECT))
    predicted = predict(settings, read_all_constants(settings, prompts))
    file = RunsFile(folder / "runs.csv", settings)
    with lock(folder):
        file.read()
        write_file(folder / "prediction.csv", predicted)
        if not so_far:
            train_missing(file, settings)
        comparison, law = judge(file.read(), settings, predicted)
        if comparison.empty:
            raise InputError(f"{file.path}: no arm has run with two seeds beside its base")
        write_file(folder / "comparison.csv", comparison)
        write_file(folder / "law.csv", law)
        for name, chosen_by in UNSEEN.items() if settings.held_out else ():
            unseen, _ = judge(file.read(), settings, predicted, "unseen", chosen_by)
            write_file(folder / name, unseen)
        for name in ("training.png", "training.pdf", "training-dark.png"):
            dark = "dark" in name
            save_figure(lambda: compose(comparison), folder / name, dark=dark)
    shown = ["optimiser", "estimator", "completions_per_step", "group_size", "step"]
    shown += ["one_plus_error", "gain_ratio", "predicted_gain_ratio"]
    for table in (comparison[shown], law):
        print(table.to_string(index=False, float_format="{:.2f}".format))


def main(words: Sequence[str] | None = None) -> int:
    """Run a study from the command line."""
    parser = argparse.ArgumentParser(description="Does training obey 1/(1 + E)?")
    parser.add_argument("settings", type=Path, metavar="SETTINGS.yaml")
    parser.add_argument("--so-far", action="store_true", help="train nothing; compare")
    parser.add_argument("--out", type=Path, metavar="DIR")
    given = parser.parse_args(words)

    def command() -> int:
        folder = given.out or Path("results") / given.settings.stem
        study(load_settings(given.settings), folder, given.so_far)
        return 0

    return exit_status_of(command)


if __name__ == "__main__":
    sys.exit(main())
