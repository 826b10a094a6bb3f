"""What a training study says, in lines of a terminal; and what it will take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError
from mse_lab.formatting import number, with_interval
from mse_lab.studies.training.figure import draw_training
from mse_lab.studies.training.files import StudyFiles
from mse_lab.studies.training.predicted_group_size import restore_predictions
from mse_lab.studies.training.settings import Study, arms_of, runs_of
from mse_lab.studies.training.verdict import FEWEST, judge_study

WORDS = {"holds": "holds", "fails": "fails", "undecided": "cannot tell"}

# Floating-point operations a parameter and token: two to draw it, six to train on it.
TO_DRAW, TO_TRAIN = 2, 6

# Operations a second that hours are told at, a tenth of an H100's peak in bfloat16, and the
# parameters that they are told for.
RATE, PARAMETERS = 1e14, 1e9


def _price(what: str, completions: int, operations: int, tokens: int) -> str:
    hours = completions * tokens * operations * PARAMETERS / RATE / 3600
    return f"{what}: {completions:,} completions, {number(hours)} h"


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


def _legend(study: Study) -> Iterator[str]:
    """Say what the columns mean."""
    loss = f"{study.tolerance:g}"
    yield "set      group sizes that are not significantly worse than another"
    yield "loss     of J, at the size nearest the predicted one (vanilla: nearest 1)"
    yield f"verdict  holds: that loss is {loss} at most, and some size's is larger;"
    yield "         fails: it is larger; in brackets: sizes of which it holds, too"


HEAD = f"{'step':>5}{'best':>6}  {'set':<20}{'loss':<31}verdict"


def _row(row: Mapping[str, Any]) -> str:
    """Say a step of an arm: the best group size, the set, the loss, the verdict."""
    begun = f"{row['step']:>5}{row['best']:>6}"
    if "set" not in row:
        return f"{begun}  not judged: {FEWEST} seeds of two group sizes are needed"
    told, alike = (", ".join(map(str, row[key])) for key in ("set", "alike"))
    loss = f"{row['nearest']}: {with_interval(row['regret'])}"
    verdict = WORDS[row["verdict"]] + f" ({alike})" * bool(alike)
    return f"{begun}  {told:<20}{loss:<31}{verdict}"


def _arm_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for (arm, budget, seeds, prompts), found in groupby(
        rows, itemgetter("arm", "budget", "seeds", "prompts")
    ):
        yield ""
        yield f"{arm}, N = {budget}, {seeds} seeds, {prompts} prompts"
        yield HEAD
        yield from map(_row, found)


def _gains(verdict: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Say what estimators other than the group's mean gain over it, seed by seed."""
    for arm in arms_of(study)[1:]:
        for prompts, gains in verdict["gains"].get(arm.name, {}).items():
            if gains and arm.training.estimator != study.estimator:
                yield ""
                yield f"{arm.name} less main, step {study.steps}, {prompts} prompts, by G"
                for size, gain in gains.items():
                    yield f"{size:>6}  {with_interval(gain)}"


def _best_eta(row: Mapping[str, Any]) -> Iterator[str]:
    """Say what is best where every group size has the best of some step sizes."""
    etas = ", ".join(f"{eta:g}" for eta in row["etas"])
    yield ""
    about = f"{row['seeds']} seeds, {row['prompts']} prompts"
    yield f"the best eta of {etas} at each G, {about}"
    yield HEAD
    yield _row(row)
    chosen = groupby(zip(row["chosen"], row["sizes"], strict=True), itemgetter(0))
    sizes = (f"{eta:g} at {', '.join(str(g) for _, g in run)}" for eta, run in chosen)
    yield f"  eta by G: {'; '.join(sizes)}"


def verdict_lines(verdict: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Say the verdicts, a line for each arm, step and set of prompts, at 80 columns."""
    yield from _legend(study)
    yield from _arm_lines(verdict["steps"])
    for row in verdict["best_eta"]:
        yield from _best_eta(row)
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
    written = files.read_prediction(arms[0])
    predictions, start = restore_predictions(written), written["start"]
    verdict = judge_study(study, table, predictions)
    files.write_verdict(verdict)
    last = predictions[study.steps]
    predicted = with_interval(last.interval(study.level))
    yield f"predicted G* of {study.steps} steps: {predicted}"
    if start:
        told = (f"{value:.3f} on {prompts} prompts" for prompts, value in start.items())
        yield f"J before training: {', '.join(told)}"
    yield from verdict_lines(verdict, study)
    for suffix in (".png", ".pdf"):
        draw_training(
            study, table, predictions[study.steps], start, figures / f"training{suffix}"
        )
    yield f"{folder}: verdict.json written"
    yield f"{figures}: training.png, .pdf written"
