"""What is committed stands where only another processor's rounding differs."""

import runpy
import shutil

import pytest

from mse_lab.project import PROJECT as ROOT

COMMITTED = "estimator,mse,bias2\ngrpo,1.0,0\nvanilla,4.0,0\n"


SAME = "1 runs: the committed numbers, but for rounding"
DIFFERS = "results/tiny/mse.csv differs by {} of the largest in {}"
OTHER_ROWS = DIFFERS.format("inf", "rows or columns")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (COMMITTED, SAME),
        (COMMITTED.replace("1.0", "1.0000002"), SAME),
        (COMMITTED.replace("1.0", "0.92"), DIFFERS.format("0.02", "mse")),
        (COMMITTED.replace("mse", "error"), OTHER_ROWS),
        (COMMITTED + "oracle,1.0,0\n", OTHER_ROWS),
    ],
    ids=["equal", "rounding", "number", "column", "row"],
)
def test_of_figure_4_only_what_differs_is_kept(table, says, tmp_path, capsys):
    """A table that differs, and the figure with it, is the measured one then."""
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
    (folders[1] / "mse.csv").write_text(table)
    runpy.run_path(str(tmp_path / ".ci/compare.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[:-1] == [says]
    assert ((folders[0] / "mse.csv").read_text() == COMMITTED) == (says == SAME)
    assert ((figures[0] / "figure4.png").read_text() == "old") == (says == SAME)
