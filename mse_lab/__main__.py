"""The process of the command line: `mse-lab`, `python -m mse_lab` and `run_mse.py`."""

import os
import sys
from typing import NoReturn

from mse_lab.console import set_up_console

# Environment variables that say how OpenMP's threads wait.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

# Instead of 300,000: beside busy processors a run took 7 times as long as alone, not 47.
SPINS = "1000"


def start() -> NoReturn:
    """Run the command line and end the process.

    OpenMP's threads spin for milliseconds before they sleep, by default, and take time from
    the thread that they wait for; without any spinning, waking one takes as long as a small
    layer does. It is set before torch is imported, and the user's own settings stay.
    """
    set_up_console()
    if os.environ.keys().isdisjoint(WAITING):
        os.environ["GOMP_SPINCOUNT"] = SPINS
    from mse_lab.commands.cli import main

    sys.exit(main())


if __name__ == "__main__":
    start()
