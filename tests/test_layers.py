"""Data flows one way; from the estimators on it is NumPy; nothing is imported too soon."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TORCH = {"policy", "adapters", "checkpoint", "completions", "factors", "rules", "recorder",
         "calls", "replays", "experts",
         "replaced", "layers", "head", "memory", "scores", "reference", "rivals",
         "invariance", "between", "measure", "environment", "several", "run",
         "footprint", "operations", "trial", "watch",
         "remarks", "chat", "loading"}  # fmt: skip


def imports_of(path):
    """Names of the modules that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def modules():
    return sorted((ROOT / "mse_lab").rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_only_the_first_half_knows_torch(path):
    found = {name.split(".")[0] for name in imports_of(path)}
    assert not found & {"torch", "transformers"} or path.stem in TORCH


def test_imports_make_no_circle():
    """Each file of the package imports only files that can be imported before it."""
    needs = {}
    for path in modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        needs[name] = {found for found in imports_of(path) if found.startswith("mse_lab.")}
    done = {"mse_lab"}
    while len(done) < len(needs):
        ready = {
            name for name in needs if name not in done and needs[name] - {name} <= done
        }
        assert ready, f"a circle among {sorted(set(needs) - done)}"
        done |= ready


@pytest.mark.parametrize("words", [["list"], ["figure", "nowhere"]], ids=["list", "figure"])
def test_no_torch_where_no_model_is_needed(words):
    code = f"import run_mse, sys; run_mse.main({words}); sys.exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
