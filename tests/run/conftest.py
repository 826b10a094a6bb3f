"""Fixtures of runs: a probe whose completions differ in length."""

import pytest

from mse_lab.probe.probe_files import load_probe


@pytest.fixture
def probe(write_probe):
    """A small probe with completions long enough to differ in length."""
    return load_probe(write_probe(sampling={"max_new_tokens": 6}))
