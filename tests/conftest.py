"""Fixtures: a checkpoint that can be enumerated, and a probe that measures it."""

import gc
import json
import sys
import tempfile

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, settings

import run_mse
from log_makers import write_lines
from models import ROWS, rows_of, small_probe, write_checkpoint
from simulated import advise_on, population, sample

# The inputs are the same on every machine, and none fails for its seconds on a busy one.
UNCHECKED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=UNCHECKED
)
settings.load_profile("suite")

PROBLEMS = [("1 2 3", 2), ("2 2", 3), ("3 1", 1), ("1", 3), ("3 3 2 1", 2)]


# What takes longest begins first, so that no worker is left with it at the end.
FIRST = (
    "tests/test_trl",
    "tests/whole/test_end_to_end.py",
    "tests/mse/test_baseline.py",
    "tests/mse/test_intervals.py",
    "tests/whole/",
    "tests/run/",
    "tests/test_training_study.py",
)


def place(item):
    """Say where in that order a test's file is."""
    begins = (number for number, one in enumerate(FIRST) if item.nodeid.startswith(one))
    return next(begins, len(FIRST))


def pytest_collection_modifyitems(items):
    """Put the longest files first; whatever is in one file stays together."""
    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def libraries_stay():
    """The libraries' objects are no garbage: statsmodels collects with every correction."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def details_apart(tmp_path_factory):
    """What is kept of an internal error goes when pytest's own folders go."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(tmp_path_factory.mktemp("details")))
        patched.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(autouse=True)
def own_modules_forgotten(tmp_path_factory):
    """A module that one test wrote is not what another test of its process imports."""
    before = {*sys.modules}
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A random four-token Qwen2 checkpoint, read-only."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def known():
    """A population, the pools of a run on it, and its advice."""
    rng = np.random.default_rng(0)
    design = population(rng)
    pools = sample(design, rng, blocks=4, largest=64)
    return design, pools, advise_on(pools)


@pytest.fixture(scope="session")
def project(tmp_path_factory, checkpoint):
    """A folder of one probe and its finished run, `small`, of three prompts; read-only."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "probes").mkdir()
    prompts, probe = folder / "probes/prompts.jsonl", folder / "probes/small.yaml"
    write_lines(prompts, ROWS)
    probe.write_text(json.dumps(small_probe(checkpoint, prompts)))
    assert run_mse.main(["run", str(probe), "--out", str(folder / "results")]) == 0
    return folder


@pytest.fixture
def write_probe(tmp_path, checkpoint):
    """Return a function that writes prompts and a probe, with changes to it."""

    def write(name="small", **changes):
        prompts = tmp_path / "prompts.jsonl"
        if not prompts.exists():
            write_lines(prompts, rows_of(PROBLEMS, category="digits"))
        larger = {"pool": {"reference": 64, "replicate": 32}, "group_sizes": [2, 4, 8]}
        larger["interval"] = {"resamples": 200}
        path = tmp_path / f"{name}.yaml"
        probe = small_probe(checkpoint, prompts, **(larger | changes))
        path.write_text(yaml.safe_dump(probe))
        return path

    return write


@pytest.fixture
def carry_out(capsys):
    """Return a function that runs a command in process and gives what it printed."""

    def attempt(*words):
        capsys.readouterr()
        status = run_mse.main([*map(str, words)])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        return printed.out

    return attempt


@pytest.fixture
def refused(tmp_path, capsys):
    """Return a function that runs the command line in process and gives its complaint."""

    def attempt(*words):
        capsys.readouterr()
        assert run_mse.main([*map(str, words)]) == 2
        printed = capsys.readouterr().err.splitlines()
        [line] = [line for line in printed if line.startswith("run_mse.py: ")]
        assert "Traceback" not in "".join(printed)
        return line

    return attempt
