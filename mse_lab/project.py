"""The project's folder: its probes and results come after those of the working folder.

It is the clone that this package lies in, or, where a wheel was installed, what `setup.py`
put into the wheel: the probes, their checkpoints and prompts, and the committed results.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
BUNDLED = "bundled"

PROJECT = _PACKAGE / BUNDLED if (_PACKAGE / BUNDLED).is_dir() else _PACKAGE.parent
