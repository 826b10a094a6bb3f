"""The process of the command line: `mse-lab`, `python -m mse_lab` and `run_mse.py`."""

import signal
from typing import NoReturn


def start() -> NoReturn:
    """Run the command line; even while it imports, Ctrl-C ends it without a traceback."""
    # A process that a shell started in the background ignores Ctrl-C, and shall go on so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mse_lab.commands import cli

    cli.start()


if __name__ == "__main__":
    start()
