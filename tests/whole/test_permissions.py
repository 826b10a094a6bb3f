"""Files that may not be read or written: named in one line by every command."""

import ctypes
import os

import pytest

from written_runs import put


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


COMMANDS = ["run", "figure", "claims", "advise", "report"]
# What is read by which commands, in the folder of the project and in that of its model.
READ_BY = {
    "probes": ["run"],
    "probes/small.yaml": ["run"],
    "probes/prompts.jsonl": ["run"],
    "model/": ["run"],
    "model/config.json": ["run"],
    "model/tokenizer.json": ["run"],
    "model/model.safetensors": ["run"],
    "results": COMMANDS,
    "results/small": COMMANDS,
    "results/small/config.yaml": ["run", "claims", "advise", "report"],
    "results/small/mse.csv": ["figure", "claims", "advise", "report"],
    "results/small/pools.npz": ["claims", "advise", "report"],
}


@pytest.mark.parametrize("closed", READ_BY)
def test_what_may_not_be_read_is_named(closed, project, checkpoint, powerless, capsys):
    _, of_model, name = closed.rpartition("model/")
    path = checkpoint / name if of_model else project / closed
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        for command in READ_BY[closed]:
            assert put(command, project, project / "results/small") == 2, command
            (line,) = capsys.readouterr().err.splitlines()
            assert "Permission denied" in line or "may not be read" in line, command
            assert path.name in line
    finally:
        path.chmod(mode)
