"""Fixtures of whole runs: more prompts than a first look takes."""

import json

import pytest


@pytest.fixture
def fifty(tmp_path, write_probe):
    """A probe of 50 prompts, two more than the second look takes."""
    rows = [
        {"id": f"p{at}", "problem": f"{1 + at % 3} {1 + at // 3 % 3}", "answer": 1 + at % 3}
        for at in range(50)
    ]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return write_probe()
