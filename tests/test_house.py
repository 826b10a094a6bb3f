"""The laws of the house: imports run downwards, and torch stays in its rooms.

The order of the folders is that of the data; what a folder may know of the others is said
here once.
"""

import ast
import subprocess
import sys

import pytest

from mse_lab.project import PROJECT as ROOT

DATA = {"records", "config", "data"}
GROUND = {"errors", "arrays", "console", "formatting", "project"}

# What each folder may import, from the ground up.
MAY_IMPORT = {
    "errors": set(),
    "project": set(),
    "arrays": set(),
    "formatting": set(),
    "console": {"errors", "project"},
    "records": GROUND,
    "config": GROUND | {"records"},
    "data": GROUND | {"records", "config"},
    "policy": GROUND | DATA,
    "scores": GROUND | DATA | {"policy"},
    "estimators": GROUND | DATA,
    "mse": GROUND | DATA | {"estimators"},
    "results": GROUND | DATA | {"estimators", "mse"},
    "run": GROUND | DATA | {"policy", "scores", "estimators", "mse", "results"},
    "logs": GROUND | DATA | {"mse"},
    "answers": GROUND | DATA | {"estimators", "mse", "results"},
    "report": GROUND | DATA | {"estimators", "mse", "results", "answers", "logs"},
    "": {"errors", "project", "api.measure", "api.rollouts"},
}
MAY_IMPORT["api.rollouts"] = GROUND | {"logs", "report"}
MAY_IMPORT["api"] = set(MAY_IMPORT) - {""}
MAY_IMPORT["trl"] = set(MAY_IMPORT) - {"", "api.rollouts"}
MAY_IMPORT["commands"] = set(MAY_IMPORT) - {""}
MAY_IMPORT["__main__"] = {"commands", "console"}

TORCH = {"torch", "transformers", "peft", "accelerate", "safetensors", "trl"}
MODEL_SIDE = {"policy", "scores", "run", "trl"}
DRAWING = {"matplotlib", "seaborn", "jinja2"}
DRAWERS = {"report"}


def imports_of(source):
    """Full names of what a file imports anywhere: modules, and what it takes of them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name, folders):
    """Those of some folders, or modules, that a name lies in."""
    return [folder for folder in folders if f"{name}.".startswith(f"{folder}.")]


def breaches(folder, source):
    """What a file of a folder imports against the laws."""
    for name in imports_of(source):
        package, _, rest = name.partition(".")
        if package == "mse_lab":
            if not within(rest, {folder, *MAY_IMPORT[folder]}):
                yield f"{folder} imports {name}"
        elif (package in TORCH and folder not in MODEL_SIDE) or (
            package in DRAWING and folder not in DRAWERS
        ):
            yield f"{folder} imports {name}"


def modules():
    return sorted((ROOT / "mse_lab").rglob("*.py"))


def name_of(path):
    """Name a file from the package down, without the suffix: ('data', 'rewards')."""
    return path.relative_to(ROOT / "mse_lab").with_suffix("").parts


def folder_of(path):
    """Name the room whose law holds for a file: the innermost that has a law."""
    return max(within(".".join(name_of(path)), MAY_IMPORT), key=len, default="")


@pytest.mark.parametrize("path", modules(), ids=lambda path: "/".join(name_of(path)))
def test_imports_run_downwards_and_torch_stays_in_its_rooms(path):
    assert not list(breaches(folder_of(path), path.read_text()))


def circle(needs):
    """What cannot be imported one after the other; empty if there is no circle."""
    done = set()
    while ready := {name for name in needs if name not in done and needs[name] <= done}:
        done |= ready
    return sorted(set(needs) - done)


def test_the_laws_themselves_run_downwards():
    """No folder may know one that may know it, by whatever way."""
    # What lies in no folder is of the public door, the package itself.
    laws = {
        folder: {home for name in names for home in within(name, MAY_IMPORT) or [""]}
        for folder, names in MAY_IMPORT.items()
    }
    assert not circle({folder: known - {folder} for folder, known in laws.items()})


def needs_of(sources):
    """Which modules of the package each one imports, by name."""

    def home(taken):
        """The module itself, or the one that it is an attribute of."""
        return taken if taken in sources else taken.rpartition(".")[0]

    return {
        name: {home(one) for one in imports_of(text) if within(one, ["mse_lab"])} - {name}
        for name, text in sources.items()
    }


def test_imports_make_no_circle():
    """Each file of the package imports only files that can be imported before it.

    What the package itself gives is imported when it is used, but counts all the same.
    """
    sources = {
        ".".join(("mse_lab", *name_of(path))).removesuffix(".__init__"): path.read_text()
        for path in modules()
    }
    assert not circle(needs_of(sources))


REFUSED_EARLY = """
drew
run tiny/bse
run tiny/base --bugdet 9
run tiny/base --set reward=intger --out new
run tiny/base --set prompts.template=none.txt --out new
run tiny/base --set prompts.source=none.jsonl --out new
run tiny/base --set seed=1 --out results
advise tiny/base --set prompts.template=none.txt --out new
advise tiny/base --set reward=intger
figure nowhere
compare smollm2/icl --estimators grop
advise tiny/base --checkpoints nowhere
"""


EACH = """
import sys
import mse_lab
import run_mse

sys.modules["huggingface_hub"] = None  # As where it is not installed.
for words in ([], ["--help"], ["--version"]):
    assert run_mse.main(words) == 0
    heavy = {"numpy", "pydantic", "yaml", "pandas", "torch", "matplotlib"} & {*sys.modules}
    assert not heavy, f"{words}: {heavy}"
assert mse_lab.rollouts("probes/notebooks/rollouts.jsonl").summary["prompts"]
assert "matplotlib" not in sys.modules, "rollouts"
arrays = dict(__import__("numpy").load("mse_lab/examples/demo/pools.npz"))
result = mse_lab.analyse(arrays, group_sizes=[4, 8])
result.mse, result.claims(), result.advise()
for line in sys.argv[1:]:
    status = run_mse.main(line.split())
    if status != 2 * (line not in ("demo", "advise demo")):
        sys.exit(f"{line}: status {status}")
    if {"torch", "transformers"} & {*sys.modules}:
        sys.exit(f"{line}: torch is imported")
"""


def test_no_torch_where_no_model_is_needed():
    """Not from logs and pools, not for what only looks or is refused without a model."""
    lines = REFUSED_EARLY.strip().splitlines()
    words = [sys.executable, "-c", EACH, "demo", "advise demo", *lines]
    done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_file_is_long():
    """One concept is one file, of 500 lines at most, as CONTRIBUTING.md says."""
    folders = ("mse_lab", "probes", "tests", ".ci")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    lines = {str(file): len(file.read_text("utf-8").splitlines()) for file in files}
    assert len(lines) > 200
    assert not {file: count for file, count in lines.items() if count > 500}
