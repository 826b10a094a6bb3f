"""A wheel, installed beside the base packages alone: what it does outside a clone."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pandas as pd
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("mse_lab", "probes", "results", "pyproject.toml", "setup.py", "README.md")
SMOKE = [
    f"--set={setting}"
    for setting in ("prompts.limit=2", "pool.reference=32", "pool.replicate=128")
]


def run(*words, cwd, status=0):
    """Run a command; give what it printed, of a failed one what it complained."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def pip(*words, cwd):
    return run(sys.executable, "-m", "pip", *words, "--no-deps", "--no-index", cwd=cwd)


def wanted(lines, extra=""):
    """Names of the distributions that lines of metadata require, and an extra."""
    for needed in map(Requirement, lines):
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield needed.name


def needed_by(names):
    """Those distributions and all that they need, without anybody's extras."""
    todo, found = [*names], set()
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += wanted(metadata.requires(name) or ())
    return found


def link(names, folder):
    """Make a folder of packages that holds these distributions, as links."""
    folder.mkdir()
    for name in names:
        found = metadata.distribution(name)
        for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(found.locate_file(top))


# Commands in turn; a process each would import pandas and matplotlib again.
IN_TURN = """
import contextlib, io, json, sys
from mse_lab.commands.cli import main

def call(words):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as complaints:
            status = main(words)
    return status, out.getvalue(), complaints.getvalue()

print(json.dumps([call(words) for words in json.loads(sys.argv[1])]))
"""


class Installed:
    """An environment with the wheel, and an empty folder to work in."""

    def __init__(self, folder, wheel):
        self.python = folder / "environment/bin/python"
        self.folder, self.here = folder, folder / "empty"
        self.here.mkdir()
        run(sys.executable, "-m", "venv", "--without-pip", "environment", cwd=folder)
        pip("--python", self.python, "install", wheel, cwd=folder)
        (self.packages,) = folder.glob("environment/lib/python*/site-packages")

    def add(self, extra=""):
        """Let it see the packages that the wheel requires, or an extra of it."""
        text = next(self.packages.glob("mse_lab-*/METADATA")).read_text()
        lines = re.findall(r"^Requires-Dist: (.+)$", text, re.MULTILINE)
        folder = self.folder / f"packages-{extra}"
        link(needed_by(wanted(lines, extra)), folder)
        (self.packages / f"{folder.name}.pth").write_text(f"{folder}\n")

    @property
    def command(self):
        return self.python.parent / "mse-lab"

    def __call__(self, *words):
        return run(self.command, *words, cwd=self.here)

    def each(self, *commands):
        """Give status, output and complaints of several commands of one process."""
        lines = [[str(word) for word in words] for words in commands]
        return json.loads(run(self.python, "-c", IN_TURN, json.dumps(lines), cwd=self.here))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in (*SOURCES, "LICENSE"):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.npz.*", "completions.jsonl")
            shutil.copytree(ROOT / name, sources / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, sources)
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, sources, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return Installed(folder, wheel)


@pytest.fixture(scope="module")
def base(installed):
    installed.add()
    assert "No module" in run(installed.python, "-c", "import torch", cwd="/", status=1)
    return installed


def test_without_torch_it_answers(base):
    """From what came with the wheel, in an empty folder."""
    answer = base("demo")
    assert answer.startswith("Set num_generations = 4 ")
    assert "pip install '.[measure]' in the clone" in answer
    # As TRL writes its own: Parquet needs a package that pandas does not bring.
    log = pd.read_json(ROOT / "probes/notebooks/rollouts.jsonl", lines=True)
    log.to_parquet(base.folder / "log.parquet")
    found = base.each(
        ["advise", "tiny/base"],
        ["figure"],
        ["rollouts", base.folder / "log.parquet", "--json"],
        [],
    )
    assert [status for status, *_ in found] == [0] * 4, found
    (_, advice, _), _, (_, summary, _), (_, listed, _) = found
    assert advice.startswith("Set num_generations = 4 ")
    counts = json.loads(summary)
    assert (counts["prompts"], counts["completions"]) == (60, 480)
    assert re.search(r"tiny/base +not run", listed)
    # What `report demo` reads, which takes too long here.
    demo = base.packages / "mse_lab/bundled/results/demo"
    assert {"environment.json", "pools.npz"} <= {path.name for path in demo.iterdir()}
    written = {str(path.relative_to(base.here)) for path in base.here.rglob("*.*")}
    assert written == {"figures/figure4.png", "figures/figure4.pdf"}


# Every module of the rooms below a model, and every command's own imports; then Python's
# doors to a model.
IMPORTS = """
import pkgutil
from importlib import import_module

import mse_lab

for room in "records config data estimators mse results answers report logs commands".split():
    folder = import_module(f"mse_lab.{room}")
    for one in pkgutil.iter_modules(folder.__path__):
        if one.name != "hub":
            import_module(f"{folder.__name__}.{one.name}")
for door in (mse_lab.measure, mse_lab.advise):
    try:
        door(None, None, [], "integer")
    except mse_lab.InputError as error:
        print(error)
"""


def test_without_torch_what_needs_it_says_what_to_install(base):
    """The first that is missed is named; all are of one extra."""
    remedy = "pip install '.[measure]' in the clone"
    (line,) = run(base.command, "run", "tiny/base", cwd=base.here, status=2).splitlines()
    assert re.search("^mse-lab: no package (torch|huggingface_hub) in ", line)
    assert line.endswith(remedy)
    said = run(base.python, "-c", IMPORTS, cwd=base.here).splitlines()
    assert len(said) == 2
    assert all(one.endswith(f"(No module named 'torch'); {remedy}") for one in said)


def test_with_measure_it_measures(base):
    """Also with a reward of the project; where `advise` has written before."""
    base.add("measure")
    said = base("run", "tiny/base", "lenient/base", *SMOKE)
    assert "results/tiny/base: results written" in said
    assert "results/lenient/base: results written" in said
