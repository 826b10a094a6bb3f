"""The committed training studies: their verdicts are those of their runs."""

import json
from pathlib import Path

import pandas as pd
import pytest

from mse_lab.answers.predicted_group_size import predict, restore_predictions
from mse_lab.answers.training_verdict import judge_study
from mse_lab.mse.intervals import Estimate
from mse_lab.probe.study import arms_of, load_study, runs_of, study_file
from mse_lab.report.training_report import WORDS
from mse_lab.results.study_files import StudyFiles
from mse_lab.train.origin import origins_of
from mse_lab.wording import plain_with_interval

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
    return words_of("results/README.md")


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
    _, files = committed
    written = files.read_prediction()
    del written["digest"]
    found = predict(pd.read_csv(files.folder / "pilots.csv"))
    assert approximate(found) == written


def test_the_verdict_is_that_of_the_runs(committed):
    study, files = committed
    predictions = restore_predictions(files.read_prediction(arms_of(study)[0]))
    found = judge_study(study, files.read(list(runs_of(arms_of(study)))), predictions)
    written = json.loads((files.folder / "verdict.json").read_text())
    assert approximate(found) == written


def test_the_table_of_the_page_is_that_of_the_verdict(committed):
    study, files = committed
    page = (ROOT / "results/README.md").read_text(encoding="utf-8")
    verdict = json.loads((files.folder / "verdict.json").read_text())
    for row in verdict["steps"][: len(study.evaluation.steps)]:
        predicted, peak = (
            plain_with_interval(Estimate(*row[name])) for name in ("predicted", "peak")
        )
        others = ", ".join(str(size) for size in row["set"] if size != row["best"])
        best = f"{row['best']}; {others or 'none'}"
        verdicts = " | ".join(WORDS[row[test]] for test in "ABC")
        assert f"| {row['step']} | {predicted} | {peak} | {best} | {verdicts} |\n" in page


def test_the_table_of_arms_is_that_of_the_verdict(verdict):
    """Each arm's last step: seeds, J by G, the best, the verdicts."""
    page = (ROOT / "results/README.md").read_text(encoding="utf-8")
    rows = [row for row in verdict["steps"] if row["step"] == 100 and row["arm"] != "main"]
    assert {row["arm"] for row in rows} >= {"epochs", "adamw", "eta-0.06", "vanilla"}
    for row in rows:
        assert arm_line(row["arm"], row) in page
    tuned = verdict["best_eta"]
    assert arm_line("the best eta of each G", tuned) in page
    etas = ", ".join(f"{eta:g}" for eta in tuned["chosen"])
    assert f"| eta | | {etas} | | | | |\n" in page


def test_the_first_page_tells_the_last_step_of_the_main_grid(verdict, page):
    row = verdict["steps"][3]
    assert (row["arm"], row["step"], row["A"]) == ("main", 100, "holds")
    means = dict(zip(row["sizes"], row["means"], strict=True))
    low, high = row["peak"][1:]
    first = words_of("README.md")
    assert f"is at {row['peak'][0]:.1f} [{low:.1f}, {high:.1f}] after 100 steps" in first
    told = (f"{means[4]:.2f} at G = 4", *(f"{means[g]:.2f} at {g}" for g in (16, 32, 64)))
    assert ", ".join(told) in first
    tuned = dict(zip(row["sizes"], verdict["best_eta"]["means"], strict=True))
    told = (f"{tuned[4]:.2f} at 4", *(f"{tuned[g]:.2f} at {g}" for g in (16, 64)))
    assert f"with the best of four, {', '.join(told)}." in first
    assert ", ".join(f"{mean:.3f}" for mean in row["means"]) in page
    for arm, sizes in {"vanilla": (2, 4), "best-constant-loo": (4, 8, 16)}.items():
        for size in sizes:
            gain, low, high = verdict["gains"][arm][str(size)]
            assert f"{gain:.3f} [{low:.3f}, {high:.3f}]" in page


def test_what_is_told_of_the_arms(verdict, page):
    """The sentences below their table, each put to the verdict."""
    arms = {row["arm"]: row for row in verdict["steps"] if row["step"] == 100}
    small, held_out = arms["small-step"], verdict["held_out"]
    low, high = min(small["means"]), max(small["means"])
    assert f"the means lie between {low:.3f} and {high:.3f}" in page
    assert "up to G = 16 within 0.004" in page
    assert max(small["means"][:4]) - min(small["means"][:4]) <= 0.004
    told = (held_out["small-step"]["4"], held_out["main"]["4"])
    assert "({:.2f} instead of {:.2f} at G = 4)".format(*told) in page
    tuned = verdict["best_eta"]
    assert (
        f"J still falls from {max(tuned['means']):.3f} to {tuned['means'][-1]:.3f}" in page
    )
    assert (tuned["best"], 8 in tuned["set"]) == (4, False)
    for arm in ("budget-64", "main", "budget-256", "epochs", "adamw"):
        assert arms[arm]["best"] == 4
    assert all(2 in row["set"] for row in arms.values())
    vanilla = [row for row in verdict["steps"] if row["arm"] == "vanilla"]
    assert [row["B"] for row in vanilla] == ["holds"] * 4
    assert sum(row["means"][1] > row["means"][0] for row in vanilla) == 2
    gains = verdict["gains"]["best-constant-loo"]
    assert all(low <= 0 <= high for _, low, high in gains.values())


def test_what_is_told_of_the_refusals(verdict, page):
    """Every arm and step at which A or B fails, and no other."""
    steps = verdict["steps"]

    def refused(test):
        judged = [row for row in steps if test in row]
        fails = {row["arm"]: row for row in judged if row[test] == "fails"}
        assert all(row["step"] == 100 for row in fails.values())
        return len(judged), fails

    count, fails = refused("A")
    assert (count, set(fails)) == (32, {"epochs", "eta-0.06"})
    for row in fails.values():
        value, low, high = row["peak"]
        assert f"of {value:.2f} [{low:.2f}, {high:.2f}]" in page
    count, fails = refused("B")
    assert (count, set(fails)) == (36, {"small-step"})
    small = [row for row in steps if row["arm"] == "small-step"]
    assert all(64 not in row["set"] for row in small)
    assert all({16, 32} <= set(row["set"]) for row in small[:3])
    means = dict(zip(small[-1]["sizes"], small[-1]["means"], strict=True))
    assert max(means[2] - means[16], means[2] - means[32]) < 0.0055
    assert [row["A"] for row in small].count("undecided") == 3
    assert (small[-1]["best"], small[-1]["set"]) == (2, [2, 8])
    assert f"{small[-1]['regret'][0]:.3f}" == "0.002"


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


def arm_line(name, row):
    """An arm's row of the page's table."""
    means = ", ".join(f"{mean:.3f}".lstrip("0") for mean in row["means"])
    others = ", ".join(str(size) for size in row["set"] if size != row["best"])
    words = " | ".join(WORDS[row[test]] if test in row else "" for test in "ABC")
    best = f"{row['best']}; {others or 'none'}"
    return (
        " ".join(f"| {name} | {row['seeds']} | {means} | {best} | {words} |".split()) + "\n"
    )


def approximate(value):
    """Let what JSON is made of be compared to one digit more than any page prints."""
    if isinstance(value, dict):
        return {key: approximate(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [approximate(one) for one in value]
    inexact = isinstance(value, float)
    return pytest.approx(value, rel=1e-4, abs=1e-5, nan_ok=True) if inexact else value
