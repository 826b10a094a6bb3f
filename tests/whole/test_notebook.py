"""A notebook's committed outputs stand where only another processor's rounding differs."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from probes.notebooks.execute import agrees


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
def test_outputs_agree_but_for_rounding(old, new, same):
    assert agrees(old, new) == same
