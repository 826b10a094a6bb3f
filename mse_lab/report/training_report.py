"""What a training study says, in lines of a terminal; and what it will take."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from mse_lab.answers.predicted_group_size import restore_predictions
from mse_lab.answers.training_verdict import FEWEST, TESTS, judge_study
from mse_lab.errors import InputError
from mse_lab.probe.study import Study, arms_of, runs_of
from mse_lab.report.training_figure import draw_training
from mse_lab.results.study_files import StudyFiles
from mse_lab.wording import plain, plain_with_interval

WORDS = {"holds": "holds", "fails": "fails", "undecided": "cannot tell"}

# Floating-point operations a parameter and token: two to draw it, six to train on it.
TO_DRAW, TO_TRAIN = 2, 6

# Operations a second that hours are told at, a tenth of an H100's peak in bfloat16, and the
# parameters that they are told for.
RATE, PARAMETERS = 1e14, 1e9


def _price(what: str, completions: int, operations: int, tokens: int) -> str:
    hours = completions * tokens * operations * PARAMETERS / RATE / 3600
    return f"{what}: {completions:,} completions, {plain(hours)} h"


def study_lines(
    study: Study, prompts: int, tokens: int, seconds: Sequence[float] = ()
) -> Iterator[str]:
    """Say what a study will take.

    Args:
        study: The study.
        prompts: Its prompts.
        tokens: The most that a completion may have.
        seconds: What each of its runs took that are done.
    """
    trained, looks = 0, 0
    yield f"{'arm':<20} {'N':>6} {'steps':>6} {'runs':>5} {'completions':>13}"
    for arm in arms_of(study):
        one, runs = arm.training, len(arm.training.group_sizes) * arm.training.seeds
        drawn = runs * one.steps * one.budget
        trained, looks = trained + drawn, looks + runs * len(arm.evaluation.steps)
        yield f"{arm.name:<20} {one.budget:>6} {one.steps:>6} {runs:>5} {drawn:>13,}"
    prediction = study.prediction
    pilots = len(prediction.group_sizes) * prediction.seeds
    piloted = pilots * study.steps * study.budget
    pool = (prediction.reference + prediction.replicate) * (prediction.prompts or prompts)
    yield ""
    yield "Hours of a GPU at 100 TFLOP/s, for each 10^9 parameters,"
    yield f"at {tokens} tokens a completion (the most), without those of the prompts:"
    both, seen = TO_DRAW + TO_TRAIN, pilots * (1 + len(study.evaluation.steps)) * pool
    looked = looks * prompts * study.evaluation.completions
    yield _price("  training", trained, both, tokens)
    yield _price("  J", looked, TO_DRAW, tokens)
    yield _price(f"  {pilots} pilots", piloted, both, tokens)
    yield _price("  c1 and c3 along them", seen, both, tokens)
    if seconds:
        yield f"{len(seconds)} of its runs are done; they took {sum(seconds) / 3600:.1f} h"


def _head(tests: Iterable[str]) -> str:
    begun = f"{'step':>6}{'seeds':>7}{'best G':>8}  {'not told from it':<18}"
    return begun + "".join(f"{test:<13}" for test in tests).rstrip()


def _row(row: Mapping[str, Any]) -> str:
    """Say a step of an arm: the best group size, those not told from it, the verdicts."""
    begun = f"{row['step']:>6}{row['seeds']:>7}"
    if row["seeds"] < FEWEST:
        return f"{begun}  {FEWEST} seeds at every group size are needed"
    if "best" not in row:
        return f"{begun}  two group sizes are needed"
    others = ", ".join(str(size) for size in row["set"] if size != row["best"])
    told = "".join(f"{WORDS[row[test]] if test in row else '':<13}" for test in TESTS)
    return f"{begun}{row['best']:>8}  {others:<18}{told}".rstrip()


def _gains(verdict: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Say what estimators other than the group's mean gain over it, seed by seed."""
    for arm in arms_of(study)[1:]:
        gains = verdict["gains"].get(arm.name, {})
        told = {size: gain for size, gain in gains.items() if math.isfinite(gain[1])}
        if told and arm.training.estimator != study.estimator:
            yield f"{arm.name} less the main grid, step {study.steps}, by G"
            for size, gain in told.items():
                yield f"{size:>6}  {plain_with_interval(gain)}"


def _best_eta(row: Mapping[str, Any]) -> Iterator[str]:
    """Say what is best where every group size has the best of some step sizes."""
    etas = ", ".join(f"{eta:g}" for eta in row["etas"])
    yield f"the best eta of {etas} at each G"
    yield _head(test for test in TESTS if test in row)
    yield _row(row)
    chosen = groupby(zip(row["chosen"], row["sizes"], strict=True), itemgetter(0))
    sizes = (f"{eta:g} at {', '.join(str(g) for _, g in run)}" for eta, run in chosen)
    yield f"  eta by G: {'; '.join(sizes)}"


def verdict_lines(verdict: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Say the verdicts, a line for each arm and step, at 80 columns."""
    for test, meaning in verdict["tests"].items():
        yield f"{test}  {meaning}"
    for (arm, budget), rows in groupby(verdict["steps"], itemgetter("arm", "budget")):
        yield f"{arm}, N = {budget}"
        yield _head(TESTS)
        yield from map(_row, rows)
    if verdict["best_eta"]:
        yield from _best_eta(verdict["best_eta"])
    yield from _gains(verdict, study)


def write_training(folder: Path, study: Study, figures: Path) -> Iterator[str]:
    """Judge and draw what has run of a study; yield the lines that say it.

    Raises:
        InputError: There is no prediction, or no run.
    """
    files = StudyFiles(folder)
    arms = arms_of(study)
    table = files.read(list(runs_of(arms)))
    if table.empty:
        raise InputError(f"{folder}: no run is done")
    predictions = restore_predictions(files.read_prediction(arms[0]))
    verdict = judge_study(study, table, predictions)
    files.write_verdict(verdict)
    last = predictions[study.steps]
    predicted = plain_with_interval(last.interval(study.level))
    yield f"predicted G* of {study.steps} steps: {predicted}"
    yield from verdict_lines(verdict, study)
    for suffix in (".png", ".pdf"):
        draw_training(study, table, predictions, figures / f"training{suffix}")
    yield f"{folder}: verdict.json written"
    yield f"{figures}: training.png, .pdf written"
