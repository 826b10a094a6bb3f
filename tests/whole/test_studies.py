"""The committed training studies: their verdicts are those of their runs."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mse_lab.studies.training.best_sizes import Curve
from mse_lab.studies.training.files import FORMER, Prediction, StudyFiles
from mse_lab.studies.training.origin import origins_of
from mse_lab.studies.training.predicted_group_size import predict
from mse_lab.studies.training.report import WORDS
from mse_lab.studies.training.settings import arms_of, load_study, runs_of, study_file
from mse_lab.studies.training.verdict import PROMPTS, judge_study
from simulated_study import row_of

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted(path.parent for path in (ROOT / "results").glob("*/runs.csv"))


@pytest.fixture(params=COMMITTED, ids=lambda folder: folder.name)
def committed(request):
    """A study as the project ships it, and its files."""
    folder = request.param
    return load_study(study_file(folder.name, ROOT)), StudyFiles(folder)


@pytest.fixture
def verdict():
    """That of the study on the first page."""
    return json.loads((ROOT / "results/group-size/verdict.json").read_text())


@pytest.fixture
def page():
    """The page of results, wherever its lines end."""
    return words_of("results/TRAINING.md")


def words_of(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_the_runs_are_of_the_settings_that_ship(committed):
    study, files = committed
    assert load_study(files.folder / "study.yaml") == study
    runs = list(runs_of(arms_of(study)))
    assert not files.read(runs).empty


def test_the_runs_are_of_the_probes_that_ship(committed):
    """Their settings, prompts and checkpoints."""
    study, files = committed
    written = json.loads((files.folder / "probes.json").read_text())
    assert origins_of(arms_of(study), ROOT) == written


def test_the_prediction_is_that_of_the_pilots(committed):
    study, files = committed
    main = arms_of(study)[0]
    found = predict(pd.read_csv(files.folder / "pilots.csv").rename(columns=FORMER))
    written = files.read_prediction(main).by_step
    assert list(found) == list(written)
    for step, predicted in found.items():
        there = written[step].model_dump(mode="json")
        assert approximate(predicted.model_dump(mode="json")) == there


def test_the_verdict_is_that_of_the_runs(committed):
    study, files = committed
    predictions = files.read_prediction(arms_of(study)[0]).by_step
    runs = files.read(list(runs_of(arms_of(study))))
    found = judge_study(study, runs, predictions)
    written = json.loads((files.folder / "verdict.json").read_text())
    assert approximate(found) == written


def means_of(row):
    """J by group size."""
    return dict(zip(row["sizes"], row["means"], strict=True))


def cells(row):
    """What a table of the page says of a row: J by G, the set, the loss, the verdict."""
    means = ", ".join(f"{mean:.3f}".lstrip("0") for mean in row["means"])
    chosen, alike = (", ".join(map(str, row[key])) for key in ("set", "alike"))
    verdict = WORDS[row["verdict"]] + f" ({alike})" * bool(alike)
    return f"{means} | {chosen} | {bracketed(row['regret'])} | {verdict} |\n"


def bracketed(interval):
    return "{:.3f} [{:.3f}, {:.3f}]".format(*interval)


def test_the_tables_of_the_page_are_those_of_the_verdict(verdict):
    """The main grid's rows; each arm's last step; the best of several step sizes."""
    page = (ROOT / "results/TRAINING.md").read_text(encoding="utf-8")
    arms = set()
    for row in verdict["steps"]:
        told = f"{row['prompts']} | {cells(row)}"
        if row["arm"] == "main":
            assert f"| {row['step']} | {told}" in page
        elif row["step"] == 100:
            assert f"| {row['arm']} | {row['seeds']} | {told}" in page
            arms.add(row["arm"])
    assert arms >= {"epochs", "adamw", "eta-0.06", "vanilla"}
    for row in verdict["best_eta"]:
        about = f"| the best eta of each G | {row['seeds']} | {row['prompts']} | "
        assert about + cells(row) in page
        etas = ", ".join(f"{eta:g}" for eta in row["chosen"])
        assert f"| eta | | | {etas} | | | |\n" in page


def test_the_first_page_tells_the_last_step_on_both_sets_of_prompts(verdict):
    first = words_of("README.md")
    training, held_out = (row_of(verdict, "main", prompts=one) for one in PROMPTS)
    means = means_of(training)
    told = ", ".join(f"{means[size]:.2f} at {size}" for size in (16, 32, 64))
    begun = f"went from 0.41 to {means[4]:.2f} at G = 4, nearest to the prediction"
    assert f"{begun}, {told} (" in first
    assert training["set"] == held_out["set"] == [2, 4, 8]
    assert training["best"] == 4
    means = means_of(held_out)
    told = ", ".join(f"{means[size]:.2f} at {size}" for size in (16, 32, 64))
    assert f"went from 0.41 to {means[4]:.2f} at G = 4, {told};" in first
    small = means_of(row_of(verdict, "small-step", prompts="held-out"))
    told = f"{small[4]:.2f} at 4 and {small[64]:.2f} at 64"
    assert f"with a tenth of the step it is {told}" in first


def test_what_was_known_before_training_is_told(page):
    """J of the checkpoint, what the pilots predict, and what `advise` says."""
    first, folder = words_of("README.md"), ROOT / "results/group-size"
    written = json.loads((folder / "prediction.json").read_text())
    start = written["start"]
    assert (
        f"J is {start['training']:.3f} on the training prompts and {start['held-out']:.3f} "
        "on the held-out ones" in page
    )
    assert {f"{value:.2f}" for value in start.values()} == {"0.41"}
    predictions = Prediction.model_validate(written, strict=False).by_step
    for one in predictions.values():
        assert "{:.2f} ({:.2f} to {:.2f})".format(*one.interval(0.95)) in page
    last = predictions[100].interval(0.95)
    assert "pilot trainings {:.1f} ({:.1f} to {:.1f})".format(*last) in first
    advice = json.loads((ROOT / "results/tiny/base/advice.json").read_text())["best"]
    assert "{value:.2f} ({low:.2f} to {high:.2f})".format(**advice) in page
    assert f"`advise` gives G* = {advice['value']:.1f} for the checkpoint" in first
    sizes = Curve(np.array([2.0, 4, 8, 16, 32, 64]), np.ones((1, 6)))
    for best in (advice["value"], *(one.best for one in predictions.values())):
        assert sizes.sizes[sizes.nearest(best)] == 4
    worked = json.loads((ROOT / "results/group-size-worked/prediction.json").read_text())
    last = Prediction.model_validate(worked, strict=False).by_step[100].interval(0.95)
    assert "{:.2f} ({:.2f} to {:.2f})".format(*last) in page
    assert f"Before training J is {worked['start']['training']:.3f}" in page


def test_what_is_told_of_the_main_grid(verdict, page):
    rows = [row for row in verdict["steps"] if row["arm"] == "main"]
    assert all(row["nearest"] == 4 and 4 in row["set"] for row in rows)
    assert [row["set"] == [2, 4, 8] for row in rows] == [False, True, True, True, True]
    training, held_out = (means_of(row) for row in rows[-2:])
    less = [f"{training[4] - training[size]:.2f}" for size in (16, 32, 64)]
    assert "have {}, {} and {} less than 4 on the training".format(*less) in page
    less = [f"{held_out[4] - held_out[size]:.2f}" for size in (16, 32, 64)]
    assert "and {}, {} and {} less on held-out ones".format(*less) in page
    assert f"64 ends at {held_out[64]:.3f}" in page
    few = [[means[size] for size in (2, 4, 8)] for means in (training, held_out)]
    apart = [f"{max(one) - min(one):.3f}" for one in few]
    assert "J differs by {} and {}.".format(*apart) in page


def test_what_is_told_of_the_step_sizes(verdict, page):
    tuned = means_of(verdict["best_eta"][0])
    assert f"it falls from {tuned[4]:.3f} at G = 4 to {tuned[64]:.3f} at 64" in page
    small = means_of(row_of(verdict, "small-step", prompts="held-out"))
    assert (
        f"0.003 is best at every G, with {small[4]:.3f} at G = 4 and {small[64]:.3f}"
        in page
    )
    assert set(verdict["best_eta"][1]["chosen"]) == {0.003}
    large = means_of(row_of(verdict, "eta-0.06", prompts="held-out"))
    told = [f"{large[size]:.3f}" for size in (2, 4, 8)]
    assert "0.06 leaves {}, {} and {} at".format(*told) in page
    assert max(large.values()) < 0.41
    for size in large:
        by_eta = [
            means_of(row_of(verdict, arm, prompts="held-out"))[size]
            for arm in ("small-step", "eta-0.015", "main", "eta-0.06")
        ]
        assert by_eta == sorted(by_eta, reverse=True)


def test_what_is_told_of_all_arms(verdict, page):
    rows = [row for row in verdict["steps"] if row["arm"] != "vanilla"]
    inside = sum(4 in row["set"] for row in rows)
    assert f"4 is in the set in {inside} of {len(rows)} rows" in page
    count = Counter(row["verdict"] for row in rows)
    assert count["fails"] == 0
    assert f"It holds in {count['holds']}, and in {count['undecided']} the" in page
    wide = [row for row in rows if row["regret"][2] > 0.02]
    small = [row for row in rows if row["arm"] == "small-step"]
    assert all(row["verdict"] == "undecided" for row in small)
    assert f"in {len(small)} of them, the small step's" in page
    assert len(wide) == count["undecided"] - len(small)
    adamw = row_of(verdict, "adamw", prompts="held-out")["means"]
    assert f"at {min(adamw):.2f} to {max(adamw):.2f} on held-out prompts" in page


def test_what_is_told_of_other_estimators(verdict, page):
    gains = verdict["gains"]["vanilla"]
    for size in "24":
        assert bracketed(gains["training"][size]) in page
    assert all(low <= 0 <= high for _, low, high in gains["held-out"].values())
    constant = verdict["gains"]["best-constant-loo"]
    for one in PROMPTS:
        assert all(low <= 0 <= high for _, low, high in constant[one].values())
    for size in ("4", "8", "16"):
        assert bracketed(constant["training"][size]) in page
    vanilla = [row for row in verdict["steps"] if row["arm"] == "vanilla"]
    assert [1 in row["set"] for row in vanilla] == [True] * 4 + [False]
    assert f"where 1 loses {bracketed(vanilla[-1]['regret'])}, which is just" in page


def test_what_is_told_of_the_policies_that_broke(page):
    assert "five of nine at 16, 32 and 64; the other four fell to 0.04 to 0.15" in page
    assert "three of nine at G = 16 to 64, and one at G = 4 falls from 0.90" in page
    table = pd.read_csv(ROOT / "results/group-size-worked/runs.csv")
    last = table[table["step"] == 100]
    large = last["group_size"] >= 16

    def values(arm, chosen):
        return last["value"][chosen & (last["arm"] == arm)].round(2)

    assert values("main", ~large).between(0.93, 0.94).all()
    broken = values("main", large & (last["value"] < 0.9))
    assert (len(broken), broken.min(), broken.max()) == (4, 0.04, 0.15)
    assert values("main", large).drop(broken.index).between(0.93, 0.94).all()
    slow = last[last["arm"] == "eta-0.01"]
    assert slow["value"].min() > 0.8
    means = slow.groupby("group_size")["value"].mean()
    assert f"from {means[2]:.3f} at G = 2 and 4 to {means[64]:.3f} at 64" in page
    assert f"{means[2]:.3f}" == f"{means[4]:.3f}"
    assert (values("best-constant-loo", large) < 0.1).sum() == 3
    assert (values("best-constant-loo", ~large) < 0.9).sum() == 1


def approximate(value):
    """Let what JSON is made of be compared to one digit more than any page prints."""
    if isinstance(value, dict):
        return {key: approximate(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [approximate(one) for one in value]
    inexact = isinstance(value, float)
    return pytest.approx(value, rel=1e-4, abs=1e-5, nan_ok=True) if inexact else value
