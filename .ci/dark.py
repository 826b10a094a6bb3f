"""Write a figure's twin for dark pages, its lightness reversed: `dark.py FIGURE.png ...`.

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
    brightest, dimmest = (of(colours, -1, keepdims=True) for of in (np.max, np.min))
    dark = colours + 255 - brightest - dimmest
    raised = DARKEST + dark * (255 - DARKEST) // 255
    # A palette takes a third of the room.
    return Image.fromarray(raised.astype(np.uint8)).quantize(256, dither=Image.Dither.NONE)


if __name__ == "__main__":
    for name in map(Path, sys.argv[1:]):
        with Image.open(name) as light:
            darken(light).save(name.with_name(f"{name.stem}-dark.png"), optimize=True)
