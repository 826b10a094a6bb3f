"""The project's folder: its probes and results are used if the working folder has none.

It is the clone that contains this package. Where a wheel is installed, it is the folder
that `setup.py` put into the wheel, with probes, checkpoints, prompts and committed results.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
BUNDLED = "bundled"

PROJECT = _PACKAGE / BUNDLED if (_PACKAGE / BUNDLED).is_dir() else _PACKAGE.parent
