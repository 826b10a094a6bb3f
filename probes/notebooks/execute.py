"""Execute a notebook's code cells in one process, and keep their outputs: no Jupyter.

python probes/notebooks/execute.py probes/notebooks/first-look.ipynb
"""

import ast
import base64
import io
import json
import os
import re
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# Processors leave 5e-7 of a number, and of a picture's 255 a small part on average.
ROUNDING, SHADE = 1e-5, 0.1
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def displayed(value: Any) -> dict[str, Any]:
    """Give what a notebook shows of a value, by MIME type."""
    shown: dict[str, Any] = {"text/plain": repr(value)}
    if hasattr(value, "savefig"):
        image = io.BytesIO()
        value.savefig(image, format="png", dpi=80, metadata={"Software": None})
        shown["image/png"] = base64.b64encode(image.getvalue()).decode()
        shown["text/plain"] = "<Figure>"
    elif hasattr(value, "_repr_html_"):
        shown["text/html"] = value._repr_html_()
    return shown


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell; give its outputs: what it printed, and the value of its last line."""
    *body, last = ast.parse(source).body
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        if not isinstance(last, ast.Expr):
            body.append(last)
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        outputs.append(
            {"output_type": "display_data", "data": displayed(value), "metadata": {}}
        )
    return outputs


def execute(path: Path) -> list[list[dict[str, Any]]]:
    """Run the code cells of a notebook in its folder; give the outputs of each."""
    cells = json.loads(path.read_text())["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    with chdir(path.parent):
        return [
            run_cell("".join(cell["source"]), names)
            for cell in cells
            if cell["cell_type"] == "code"
        ]


def agrees(old: Any, new: Any, kind: str = "") -> bool:
    """Whether outputs are the same but for what another processor rounds otherwise."""
    if isinstance(new, dict):
        return old.keys() == new.keys() and all(agrees(old[k], new[k], k) for k in new)
    if isinstance(new, list):
        return len(old) == len(new) and all(map(agrees, old, new))
    if kind == "image/png":
        files = (io.BytesIO(base64.b64decode(one)) for one in (old, new))
        one, other = (np.asarray(Image.open(file), float) for file in files)
        return one.shape == other.shape and bool(np.abs(one - other).mean() < SHADE)
    if NUMBER.sub("", old) != NUMBER.sub("", new):
        return False
    numbers = (np.array(NUMBER.findall(one), float) for one in (old, new))
    return np.allclose(*numbers, rtol=ROUNDING, atol=0)


def main(path: Path) -> None:
    """Write the outputs into the notebook, those of a cell where they do not agree."""
    # Screens name the next command as it was called; numbers are those of one thread.
    sys.argv[0] = "mse-lab"
    os.environ["OMP_NUM_THREADS"] = "1"
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, (cell, outputs) in enumerate(zip(code, execute(path), strict=True), 1):
        cell["execution_count"] = count
        if not agrees(cell["outputs"], outputs):
            cell["outputs"] = outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
