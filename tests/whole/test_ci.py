"""What is committed stands where only another processor's rounding differs."""

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = "estimator,mse,bias2\ngrpo,1.0,0\nvanilla,4.0,0\n"


@pytest.fixture
def compared(tmp_path, capsys):
    """Return a function that compares a measured table with the committed one."""
    folders = [tmp_path / name for name in ("results/tiny", "measured/tiny")]
    figures = [tmp_path / name for name in ("figures", "measured/figures")]
    for folder in (*folders, *figures, tmp_path / ".ci"):
        folder.mkdir(parents=True)
    for name in ("mse.csv", "laws.csv", "prompts.csv"):
        for folder in folders:
            (folder / name).write_text(COMMITTED)
    for figure, drawn in zip(figures, ("old", "new"), strict=True):
        (figure / "figure4.png").write_text(drawn)
    shutil.copy(ROOT / ".ci/compare.py", tmp_path / ".ci")

    def compare(table):
        (folders[1] / "mse.csv").write_text(table)
        runpy.run_path(str(tmp_path / ".ci/compare.py"), run_name="__main__")
        kept = (folders[0] / "mse.csv").read_text() == COMMITTED
        kept_figure = (figures[0] / "figure4.png").read_text() == "old"
        assert kept == kept_figure
        return capsys.readouterr().out.splitlines()[:-1], kept

    return compare


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (COMMITTED, "1 runs: the committed numbers, but for rounding"),
        (
            COMMITTED.replace("1.0", "1.0000002"),
            "1 runs: the committed numbers, but for rounding",
        ),
        (
            COMMITTED.replace("1.0", "0.92"),
            "results/tiny/mse.csv differs by 0.02 of the largest in mse",
        ),
        (
            COMMITTED.replace("mse", "error"),
            "results/tiny/mse.csv differs by inf of the largest in rows or columns",
        ),
        (
            COMMITTED + "oracle,1.0,0\n",
            "results/tiny/mse.csv differs by inf of the largest in rows or columns",
        ),
    ],
    ids=["equal", "rounding", "number", "column", "row"],
)
def test_of_figure_4_only_what_differs_is_kept(table, says, compared):
    assert compared(table) == ([says], "rounding" in says)
