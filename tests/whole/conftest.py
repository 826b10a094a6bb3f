"""Fixtures of whole runs: one of five prompts, and more prompts than a first look takes."""

import json

import pytest

import run_mse
from log_makers import write_lines
from models import rows_of, small_probe


@pytest.fixture(scope="session")
def five(tmp_path_factory, checkpoint):
    """A folder of a probe of five prompts, small.yaml, and its finished run; read-only."""
    folder = tmp_path_factory.mktemp("five")
    problems = {"1 2 3": 33, "3 1": 33, "1": 33, "3 3 2 1": 23, "1 3": 33}
    values = small_probe(
        checkpoint,
        write_lines(folder / "prompts.jsonl", rows_of(problems.items())),
        pool={"reference": 256, "replicate": 64},
        group_sizes=[2, 4, 8],
        estimators=["vanilla", "grpo", "oracle", "best-constant", "grpo-std", "opo"],
        interval={"resamples": 200},
    )
    values["model"]["dtype"] = "float64"
    (folder / "small.yaml").write_text(json.dumps(values))
    assert run_mse.main(["run", str(folder / "small.yaml"), "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def fifty(tmp_path, write_probe):
    """A probe of 50 prompts, no two alike, two more than the second look takes."""
    digits = [[1 + at // place % 3 for place in (1, 3, 9, 27)] for at in range(50)]
    rows = rows_of((" ".join(map(str, each)), each[0]) for each in digits)
    write_lines(tmp_path / "prompts.jsonl", rows)
    return write_probe()
