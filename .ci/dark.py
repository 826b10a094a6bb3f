"""Draw the figures of the committed tables for dark pages: `python .ci/dark.py [NAME ...]`.

Pages name both in `<picture>`. Those of studies that no code draws any more stand as they
are.
"""

import sys
from functools import partial
from io import BytesIO
from pathlib import Path

from matplotlib import style
from PIL import Image

from mse_lab.report.drawing import figure_bytes
from mse_lab.report.figure_4 import compose
from mse_lab.results.finished_run import read_tables

ROOT = Path(__file__).resolve().parents[1]
GROUND = dict.fromkeys(("axes.facecolor", "figure.facecolor"), "#0d1117")
FRAME = {"savefig.facecolor": "auto", "grid.color": "0.2"}
DARK = {**style.library["dark_background"], **GROUND, **FRAME}


def family(name: str) -> list[Path]:
    """Name the folders of a family's three runs."""
    start, _, prefix = name.partition("/")
    runs = ("base", "instruct", "icl")
    return [ROOT / "results" / start / f"{prefix}{run}" for run in runs]


FAMILIES = {"worked": "worked", "smollm2": "smollm2", "smollm2-questions": "smollm2/words-"}


def draw(name: str) -> Image.Image:
    """Draw a figure in 256 colours, which take a third of the room."""
    composer = partial(compose, [read_tables(run) for run in family(FAMILIES[name])])
    drawn = Image.open(BytesIO(figure_bytes(composer, "png", **DARK))).convert("RGB")
    return drawn.quantize(256, dither=Image.Dither.NONE)


if __name__ == "__main__":
    for name in sys.argv[1:] or FAMILIES:
        draw(name).save(ROOT / f"figures/{name}-dark.png", optimize=True)
