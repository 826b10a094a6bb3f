"""The project: its version, and where it lies.

Its probes and results are used if the working folder has none.

A wheel brings the demo's run alone; probes and committed results are in the clone.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent

PROJECT = _PACKAGE.parent
EXAMPLES = _PACKAGE / "examples"

VERSION = "0.2.0"
