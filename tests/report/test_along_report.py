"""Along a training run in words: on one screen, and in files."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from answers.test_along import along, with_right
from mse_lab.report import along_report
from mse_lab.report.along_report import along_text, write_along


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
