"""A model on several devices: the same completions, reference and scores as on one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch cannot pretend a device",
)
def test_a_model_on_two_devices_gives_the_same_numbers():
    """In a process of its own: a pretended device is registered once and for all."""
    pytest.importorskip("accelerate", reason="several devices need accelerate")
    done = subprocess.run(
        [sys.executable, TESTS / "pretended_device.py"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=TESTS.parent,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    gaps = json.loads(done.stdout)
    assert len(gaps) == 2 * 9
    assert all(gap < 1e-6 for gap in gaps.values()), gaps
