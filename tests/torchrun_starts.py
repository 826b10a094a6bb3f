"""Commands in two processes of torchrun, and what they say."""

import os
import subprocess
import sys

from mse_lab.project import PROJECT as ROOT

# Torchrun, which ends with the tests; its workers end with it.
TORCHRUN = """
import runpy
from mse_lab.run.processes import end_with_parent
end_with_parent(1)
runpy.run_module("torch.distributed.run", run_name="__main__")
"""


def torchrun(*words, folder, program=ROOT / "run_mse.py", **environment):
    """Run a program in two processes; they may not hang, however busy the machine is."""
    words = ["--standalone", "--nproc-per-node", 2, program, *words]
    return subprocess.run(
        [sys.executable, "-c", TORCHRUN, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def ours(done):
    """The lines that the program, not torchrun, printed on standard error."""
    lines = done.stderr.splitlines()
    return [line for line in lines if line.startswith("run_mse.py: ")]
