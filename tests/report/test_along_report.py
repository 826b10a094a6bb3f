"""Along a training run: the screen and its files, and what the figure's panels show."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from answers.test_along import along, with_right
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report import along_report
from mse_lab.report.along_report import along_text, compose_along, write_along
from mse_lab.report.drawing import save_figure


def test_the_screen_and_the_files(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        along_report, "save_figure", lambda *one: drawn.append(one[-1].name)
    )
    found = along(with_right(1.0, 0.6, 0.3))
    monkeypatch.chdir(tmp_path)
    said = write_along(found, Path("along"))
    assert max(map(len, said.splitlines())) <= 80
    assert "step 0 at 3 checkpoints, 60 prompts; group size 4" in said
    best = "Best over the checkpoints, each alike: G* = "
    assert best in said
    falls = "rho falls: the squared score norm of right over wrong answers."
    assert f"\nholds     {falls}\n" in said
    files = sorted(path.name for path in (tmp_path / "along").iterdir())
    assert files == ["along.csv", "along.txt", "claims.csv"]
    assert drawn == ["along.png", "along.pdf"]
    assert said.startswith((tmp_path / "along/along.txt").read_text())
    table = pd.read_csv(tmp_path / "along/along.csv")
    assert table["step"].tolist() == [0, 25, 100]
    # A number has both ends, or is a count.
    numbers = {name for name in table if name not in ("step", "probe", "group_size")}
    values = {name for name in numbers if not name.endswith(("_low", "_high"))}
    assert numbers == {f"{name}{end}" for name in values for end in ("", "_low", "_high")}


def test_where_nothing_is_known():
    solved = [replace(one, reward_PC=np.ones((60, 16))) for one in with_right(1.0, 0.3)]
    said = along_text(along(solved))
    assert "No best group size: no reward varies." in said
    assert f"{math.nan}" not in said


@pytest.fixture(scope="module")
def table():
    return along(with_right(1.0, 0.3)).table


BEST = Estimate(3.0, 2.5, 4.0)


def lines_of(axes):
    """What is drawn, by its label."""
    return {line.get_label(): list(line.get_ydata()) for line in axes.lines}


def test_the_panels_show_the_columns(table):
    panels = compose_along(table, BEST).axes
    for panel, name in enumerate(["value", "best_group_size", "vanilla", "rho"]):
        assert table[name].tolist() in lines_of(panels[panel]).values()
    sizes, groups = lines_of(panels[1]), lines_of(panels[4])
    assert (sizes["the run's, 4"], sizes["for all of it, 3.0"]) == ([4, 4], [3, 3])
    assert groups["mean of $V^G + (1-V)^G$"] == table["equal_rewards_law"].tolist()


def test_what_has_no_bound_or_is_not_known_is_left_out(table, tmp_path):
    gone = table.copy()
    gone[["rho", "rho_line", "noise_scale", "best_group_size_high"]] = math.nan
    gone.loc[1, ["best_group_size", "noise_scale_high"]] = math.inf
    for best in (UNKNOWN, Estimate(3.0, 2.0, math.inf)):
        assert "for all of it, 3.0" not in lines_of(compose_along(gone, best).axes[1])
    save_figure(lambda: compose_along(gone, UNKNOWN), tmp_path / "one.svg")
    assert (tmp_path / "one.svg").stat().st_size > 5000
