"""What is committed stands where only another processor's rounding differs."""

import base64
import io
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from probes.notebooks.execute import agrees

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


def picture(shade):
    """An output that shows a square of one shade of grey, with one pixel of it lighter."""
    pixels, file = np.full((20, 20), shade, np.uint8), io.BytesIO()
    pixels[0, 0] += 1
    Image.fromarray(pixels).save(file, format="png")
    return {"image/png": base64.b64encode(file.getvalue()).decode()}


def said(text):
    return [{"output_type": "stream", "text": text}]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (said("mse 1.602888 of 4"), said("mse 1.602887 of 4"), True),
        (said("mse 1.602888 of 4"), said("mse 1.603888 of 4"), False),
        (said("mse 1.6e-05"), said("mse 1.6e-06"), False),
        (said("mse 1.6"), said("MSE 1.6"), False),
        (said("one"), said("one") * 2, False),
        (picture(100), picture(100), True),
        (picture(100), picture(110), False),
    ],
)
def test_outputs_of_a_notebook_agree_but_for_rounding(old, new, same):
    assert agrees(old, new) == same
