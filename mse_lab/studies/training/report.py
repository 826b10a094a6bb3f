"""What a training study says, in lines of a terminal; and what it will cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError
from mse_lab.formatting import number, table, with_interval
from mse_lab.report.drawing import save_figure
from mse_lab.results.files import write_json
from mse_lab.studies.training.figure import compose_training
from mse_lab.studies.training.files import StudyFiles
from mse_lab.studies.training.settings import Study, arms_of, runs_of
from mse_lab.studies.training.verdict import FEWEST, judge_study

WORDS = {"holds": "holds", "fails": "fails", "undecided": "cannot tell"}

# Floating-point operations per parameter and token: two to draw it, six to train on it.
TO_DRAW, TO_TRAIN = 2, 6

# Hours are stated for this many operations per second, a tenth of an H100's peak in
# bfloat16, and for this many parameters.
RATE, PARAMETERS = 1e14, 1e9

HEADS = ["step", "best", "set", "loss", "verdict"]


def study_lines(
    study: Study, prompts: int, tokens: int, seconds: Sequence[float] = ()
) -> Iterator[str]:
    """Say what a study will cost, and the `seconds` that its finished runs took.

    `tokens` are the most that a completion may have.
    """
    rows, trained, evaluated = [], 0, 0
    for arm in arms_of(study):
        training, evaluation = arm.training, arm.evaluation
        runs = len(training.group_sizes) * training.seeds
        drawn = runs * training.steps * training.budget
        trained += drawn
        evaluated += runs * len(evaluation.steps) * prompts * evaluation.completions
        numbers = (training.budget, training.steps, runs, drawn)
        rows.append([arm.name, *(f"{count:,}" for count in numbers)])
    yield table(rows, ["arm", "N", "steps", "runs", "completions"])
    prediction = study.prediction
    pilots = len(prediction.group_sizes) * prediction.seeds
    pool = (prediction.reference + prediction.replicate) * (prediction.prompts or prompts)
    both = TO_DRAW + TO_TRAIN
    costs = {
        "training": (trained, both),
        "J": (evaluated, TO_DRAW),
        f"{pilots} pilots": (pilots * study.steps * study.budget, both),
        "c1 to c3 along them": (pilots * (1 + len(study.evaluation.steps)) * pool, both),
    }
    yield ""
    yield "Hours of a GPU at 100 TFLOP/s per 10^9 parameters, without the prompts' tokens,"
    yield f"if every completion has {tokens} tokens, the most:"
    per_operation = tokens * PARAMETERS / RATE / 3600
    yield table(
        [
            [f"  {name}", f"{count:,}", number(count * operations * per_operation)]
            for name, (count, operations) in costs.items()
        ],
        ["", "completions", "hours"],
    )
    if seconds:
        yield f"{len(seconds)} of its runs are done; they took {sum(seconds) / 3600:.1f} h"


def _legend(study: Study) -> Iterator[str]:
    loss = f"{study.tolerance:g}"
    yield "set      group sizes that are not significantly worse than another"
    yield "loss     of J, at the size nearest the predicted size (vanilla: nearest 1)"
    yield f"verdict  holds: that loss is at most {loss}, and some size loses more;"
    yield "         fails: it is larger; in brackets: other sizes that pass"


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Write a step of an arm: the best group size, the set, the loss, the verdict."""
    first = [str(row["step"]), str(row["best"])]
    if "set" not in row:
        return [*first, "", "", f"not judged: {FEWEST} seeds of two group sizes are needed"]
    sizes, others = (", ".join(map(str, row[key])) for key in ("set", "alike"))
    loss = f"{row['nearest']}: {with_interval(row['regret'])}"
    verdict = WORDS[row["verdict"]]
    return [*first, sizes, loss, f"{verdict} ({others})" if others else verdict]


def _verdict_table(rows: Iterable[Mapping[str, Any]]) -> str:
    return table([_cells(row) for row in rows], HEADS, ">><<<")


def _arm_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for (arm, budget, seeds, prompts), group in groupby(
        rows, itemgetter("arm", "budget", "seeds", "prompts")
    ):
        arm_rows = list(group)
        yield ""
        yield f"{arm}, N = {budget}, {seeds} seeds, {prompts} prompts"
        yield _verdict_table(arm_rows)


def _best_eta(row: Mapping[str, Any]) -> Iterator[str]:
    """Write the verdict where each group size has its best step size."""
    etas = ", ".join(f"{eta:g}" for eta in row["etas"])
    yield ""
    about = f"{row['seeds']} seeds, {row['prompts']} prompts"
    yield f"the best eta of {etas} at each G, {about}"
    yield _verdict_table([row])
    chosen = groupby(zip(row["chosen"], row["sizes"], strict=True), itemgetter(0))
    sizes = (f"{eta:g} at {', '.join(str(g) for _, g in run)}" for eta, run in chosen)
    yield f"  eta by G: {'; '.join(sizes)}"


def _gains(verdict: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Write what other estimators gain over the main grid's, seed by seed."""
    for arm in arms_of(study)[1:]:
        for prompts, gains in verdict["gains"].get(arm.name, {}).items():
            if gains and arm.training.estimator != study.estimator:
                yield ""
                yield f"{arm.name} less main, step {study.steps}, {prompts} prompts, by G"
                rows = [[size, with_interval(gain)] for size, gain in gains.items()]
                yield table(rows, align="><")


def verdict_lines(verdict: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Write the verdicts, a line for each arm, step and set of prompts, at 80 columns."""
    yield from _legend(study)
    yield from _arm_lines(verdict["steps"])
    for row in verdict["best_eta"]:
        yield from _best_eta(row)
    yield from _gains(verdict, study)


def write_training(folder: Path, study: Study, figures: Path) -> Iterator[str]:
    """Judge and draw the finished runs of a study; yield the lines of the report.

    Raises:
        InputError: There is no prediction, or no run.
    """
    files, arms = StudyFiles(folder), arms_of(study)
    runs = files.read(list(runs_of(arms)))
    if runs.empty:
        raise InputError(f"{folder}: no run is done")
    prediction = files.read_prediction(arms[0])
    verdict = judge_study(study, runs, prediction.by_step)
    write_json(folder / "verdict.json", verdict)
    last = prediction.by_step[study.steps]
    best = with_interval(last.interval(study.level))
    yield f"predicted G* of {study.steps} steps: {best}"
    if prediction.start:
        start = (f"{J:.3f} on {prompts} prompts" for prompts, J in prediction.start.items())
        yield f"J before training: {', '.join(start)}"
    yield from verdict_lines(verdict, study)
    for suffix in (".png", ".pdf"):
        save_figure(
            lambda: compose_training(study, runs, last, prediction.start),
            figures / f"training{suffix}",
        )
    yield f"{folder}: verdict.json written"
    yield f"{figures}: training.png, .pdf written"
