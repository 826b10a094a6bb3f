"""Files that may not be read or written: named in one line by every command."""

import ctypes
import json
import os
import shutil
from pathlib import Path

import pytest

import run_mse
from mse_lab.report.probe_list import list_probes
from mse_lab.report.rendering import as_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def powerless():
    """Take from root what other users lack: to open what its mode forbids."""
    library = ctypes.CDLL(None)
    # Version 3 of the call, this thread; effective, permitted, inheritable, in two halves.
    header, powers = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if os.geteuid() or not hasattr(library, "capset"):
        yield
        return
    library.capget(header, powers)
    held = powers[0]
    powers[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert not library.capset(header, powers)
    yield
    powers[0] = held
    assert not library.capset(header, powers)


@pytest.fixture(scope="module")
def measured(tmp_path_factory, checkpoint):
    """A probe with a file of every kind, and its finished run."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "in").mkdir()
    prompts = [{"id": f"p{i}", "problem": "1", "answer": i % 4} for i in range(2)]
    lines = "".join(json.dumps(prompt) + "\n" for prompt in prompts)
    (folder / "in/prompts.jsonl").write_text(lines)
    (folder / "in/template.txt").write_text("{problem}")
    shutil.copytree(checkpoint, folder / "in/model")
    values = {
        "model": {"path": str(folder / "in/model"), "device": "cpu"},
        "prompts": {
            "source": str(folder / "in/prompts.jsonl"),
            "template": str(folder / "in/template.txt"),
        },
        "sampling": {"max_new_tokens": 2},
        "pool": {"reference": 16, "replicate": 16},
        "group_sizes": [2, 4],
        "interval": {"resamples": 100},
    }
    (folder / "in/small.yaml").write_text(json.dumps(values))
    words = ["run", str(folder / "in/small.yaml"), "--out", str(folder / "out")]
    assert run_mse.main(words) in (0, 1)
    return folder


COMMANDS = {
    "run": ["run", "in/small.yaml", "--out", "out"],
    "plan": ["plan", "in/small.yaml", "--out", "out"],
    "figure": ["figure", "out/small", "--out", "out/figure.png"],
    "claims": ["claims", "out/small"],
    "advise": ["advise", "out/small"],
    "report": ["report", "out/small"],
}


READ_BY = {
    "in": ["run", "plan"],
    "in/small.yaml": ["run", "plan"],
    "in/prompts.jsonl": ["run", "plan"],
    "in/template.txt": ["run", "plan"],
    "in/model": ["run", "plan"],
    "in/model/config.json": ["run", "plan"],
    "in/model/tokenizer.json": ["run", "plan"],
    "out": list(COMMANDS),
    "out/small": list(COMMANDS),
    "out/small/config.yaml": ["run", "plan", "claims", "advise", "report"],
    "out/small/mse.csv": ["figure", "claims", "advise", "report"],
    "out/small/pools.npz": ["claims", "advise", "report"],
}


@pytest.mark.parametrize("closed", READ_BY)
def test_what_may_not_be_read_is_named(closed, measured, powerless, capsys, monkeypatch):
    monkeypatch.chdir(measured)
    path = measured / closed
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        for name in READ_BY[closed]:
            assert run_mse.main(COMMANDS[name]) == 2, name
            (line,) = capsys.readouterr().err.splitlines()
            assert "Permission denied" in line or "may not be read" in line, name
            assert Path(closed).name in line
    finally:
        path.chmod(mode)


def test_the_list_goes_on_past_what_may_not_be_read(powerless, tmp_path):
    (tmp_path / "tiny/base").mkdir(parents=True)
    (tmp_path / "tiny/base").chmod(0)
    listed = as_text([list_probes(ROOT, tmp_path)])
    (tmp_path / "tiny/base").chmod(0o700)
    words = " ".join(listed.split())
    assert "allow it" in words[words.index("tiny/base") : words.index("tiny/icl not run")]
