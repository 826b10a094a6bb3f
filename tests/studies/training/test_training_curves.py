"""The figure along training: which runs each panel shows, and what it marks."""

import numpy as np
import pandas as pd
import pytest

from mse_lab.errors import InputError
from mse_lab.results.files import write_text
from mse_lab.studies.training.settings import Study, arms_of, dump_study
from mse_lab.studies.training.training_curves import compose_curves, draw_curves, panels_of

STEPS, SIZES = [5, 10, 20], [2, 4, 8]
STUDY = Study(
    probe="x",
    steps=20,
    seeds=6,
    eta=0.1,
    group_sizes=SIZES,
    evaluation={"steps": STEPS, "held_out": "y"},
    arms={"shorter": {"eta": 0.01, "seeds": 4}},
)


def _mean(arm, size, step):
    """The long step is better for G = 2 and worse for the others, at the end."""
    long = arm == "main"
    return 0.4 + 0.001 * step * (1 if long == (size == 2) else -1)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm.name, "group_size": size, "seed": seed, "step": step, "value": 0.9,
         "held_out": _mean(arm.name, size, step) + 1e-4 * rng.standard_normal(),
         "budget": 128, "digest": arm.digest}
        for arm in arms_of(STUDY) for size in SIZES for seed in range(arm.training.seeds)
        for step in STEPS
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_panel_for_each_step_size_and_one_for_the_best(table):
    shorter, longer, best = panels_of(STUDY, table)
    assert [shorter.title, longer.title] == ["eta = 0.01", "eta = 0.1"]
    seeds = [len(panel.curves[20].values_SG) for panel in (shorter, longer, best)]
    assert seeds == [4, 6, 4]
    for step in STEPS:
        np.testing.assert_allclose(best.curves[step].means, 0.4 + 0.001 * step, atol=3e-4)


def test_the_best_panel_compares_the_same_seeds(table):
    # A seed of the main grid has not run at every group size; its number is 0.
    left_out = (table["arm"] == "main") & (table["seed"] == 0) & (table["group_size"] == 8)
    *_, best = panels_of(STUDY, table[~left_out])
    main, shorter = (table[table["arm"] == arm] for arm in ("main", "shorter"))
    for size, rows in ((2, main), (4, shorter)):
        rows = rows[(rows["group_size"] == size) & (rows["step"] == 20)]
        expected = rows[rows["seed"].isin([1, 2, 3])].sort_values("seed")["held_out"]
        at = SIZES.index(size)
        np.testing.assert_array_equal(best.curves[20].values_SG[:, at], expected)


def test_a_disc_marks_the_best_and_rings_its_equals(table):
    figure = compose_curves(STUDY, table, start=0.4)
    below = figure.axes[4]  # Under the panel of eta = 0.1.
    marks = {
        (line.get_xdata()[0], SIZES[int(line.get_ydata()[0])]): line.get_markerfacecolor()
        for line in below.lines
    }
    assert marks[20, 2] != "none"
    assert (20, 4) not in marks
    assert (20, 8) not in marks
    assert figure.axes[1].get_title() == "eta = 0.1, 6 seeds"


def test_a_single_step_is_no_curve(table):
    table["held_out"] = table["held_out"].where(table["step"] == 20)
    with pytest.raises(InputError, match="known at fewer than two steps"):
        panels_of(STUDY, table)


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(InputError, match="no training study"):
        draw_curves(tmp_path, tmp_path / "a.png")


def test_a_study_is_drawn_from_its_folder(tmp_path, table):
    write_text(tmp_path / "study.yaml", dump_study(STUDY))
    table.assign(seconds=1.0).to_csv(tmp_path / "runs.csv", index=False)
    draw_curves(tmp_path, tmp_path / "along.svg")
    text = (tmp_path / "along.svg").read_text()
    assert "</svg>" in text
