"""Figures for dark pages: drawn from the committed tables, and shown by the pages."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
TWINS = sorted((ROOT / "figures").glob("*-dark.png"))
DARK = runpy.run_path(str(ROOT / ".ci/dark.py"))


@pytest.mark.parametrize("name", DARK["FAMILIES"])
def test_a_twin_is_of_the_tables_as_they_stand(name):
    """It has the size of the light one, and a dark ground."""
    drawn = np.asarray(DARK["draw"](name).convert("RGB"), dtype=float)
    with Image.open(ROOT / f"figures/{name}-dark.png") as committed:
        np.testing.assert_allclose(drawn, np.asarray(committed.convert("RGB")), atol=3)
    with Image.open(ROOT / f"figures/{name}.png") as light:
        assert drawn.shape[:2] == light.size[::-1]
        assert np.median(np.asarray(light.convert("L"))) > 200 > 50 > np.median(drawn)


def test_pages_show_the_twins():
    pages = [ROOT / "README.md", *(ROOT / "results").rglob("README.md")]
    text = "".join(page.read_text() for page in [*pages, ROOT / "results/TRAINING.md"])
    shown = set(re.findall(r'srcset="(?:\.\./)*figures/([\w-]+\.png)"', text))
    assert shown == {twin.name for twin in TWINS} != set()
