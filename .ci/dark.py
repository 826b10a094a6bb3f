"""Write the twin of a figure for dark pages, its lightness reversed: `dark.py FIGURE.png ...`.

Hue and contrast stay; white becomes nearly black. Pages name both in `<picture>`.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

# Of the ground of a dark page.
DARKEST = 21


def darken(figure: Image.Image) -> Image.Image:
    """Reverse the lightness, (max + min) / 2 of a pixel's colours."""
    colours = np.asarray(figure.convert("RGB"), dtype=int)
    reversed_ = colours + 255 - colours.max(-1, keepdims=True) - colours.min(-1, keepdims=True)
    raised = DARKEST + reversed_ * (255 - DARKEST) // 255
    # A palette takes a third of the room.
    return Image.fromarray(raised.astype(np.uint8)).quantize(256, dither=Image.Dither.NONE)


for name in map(Path, sys.argv[1:]):
    with Image.open(name) as light:
        darken(light).save(name.with_name(f"{name.stem}-dark.png"), optimize=True)
