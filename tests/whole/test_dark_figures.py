"""Twins of figures for dark pages: the figure beside them, its lightness reversed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
TWINS = sorted((ROOT / "figures").glob("*-dark.png"))


def colours(path):
    with Image.open(path) as figure:
        return np.asarray(figure.convert("RGB"), dtype=float)


def light(twin):
    return twin.with_name(twin.name.replace("-dark", ""))


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.stem)
def test_a_twin_is_of_its_figure_as_it_stands(twin):
    dark, bright = colours(twin), colours(light(twin))
    reversed_ = bright + 255 - bright.max(-1, keepdims=True) - bright.min(-1, keepdims=True)
    gaps = np.abs(dark - (21 + reversed_ * 234 / 255)).max(-1)
    # A palette has 256 colours.
    assert (gaps > 40).mean() < 1e-3


def test_a_figure_is_reversed(tmp_path):
    Image.fromarray(np.uint8([[[255, 255, 255], [0, 0, 0], [0, 0, 128]]])).save(
        tmp_path / "one.png"
    )
    shutil.copy(ROOT / ".ci/dark.py", tmp_path)
    subprocess.check_call([sys.executable, "dark.py", "one.png"], cwd=tmp_path)
    expected = [[[21, 21, 21], [255, 255, 255], [137, 137, 255]]]
    np.testing.assert_allclose(colours(tmp_path / "one-dark.png"), expected, atol=2)


def test_pages_show_the_twins():
    pages = [ROOT / "README.md", *(ROOT / "results").rglob("README.md")]
    text = "".join(page.read_text() for page in [*pages, ROOT / "results/TRAINING.md"])
    shown = set(re.findall(r'srcset="(?:\.\./)*figures/([\w-]+\.png)"', text))
    assert shown == {twin.name for twin in TWINS} != set()
