"""Fixtures of whole runs: more prompts than a first look takes."""

import json

import pytest


@pytest.fixture
def fifty(tmp_path, write_probe):
    """A probe of 50 prompts, no two alike, two more than the second look takes."""
    digits = [[1 + at // place % 3 for place in (1, 3, 9, 27)] for at in range(50)]
    rows = [
        {"id": f"p{at}", "problem": " ".join(map(str, each)), "answer": each[0]}
        for at, each in enumerate(digits)
    ]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return write_probe()
