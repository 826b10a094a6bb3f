"""The notebook runs, and shows what its committed outputs show."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "probes/notebooks"


def load_runner():
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kinds(outputs):
    """Of each output its kind; of what is displayed in which forms."""
    return [(one["output_type"], sorted(one.get("data", ()))) for one in outputs]


def test_the_first_look_is_what_it_shows():
    """To the digit it need not be: another processor rounds otherwise."""
    path = FOLDER / "first-look.ipynb"
    cells = json.loads(path.read_text())["cells"]
    committed = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    found = load_runner().execute(path)
    assert [kinds(one) for one in found] == [kinds(one) for one in committed]
    texts = [one.get("text", "") for cell in found for one in cell]
    assert any("Set num_generations = " in text for text in texts)
    assert str(ROOT) not in path.read_text()
