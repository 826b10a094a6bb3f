"""What the tables of the pages share: where they are kept, and how a number is written."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"

Row = Mapping[str, str]
TABLES: dict[str, Callable[[], Iterable[Row]]] = {}


def table(rows: Callable[[], Iterable[Row]]) -> Callable[[], Iterable[Row]]:
    """Keep a function under its name, with hyphens."""
    TABLES[rows.__name__.replace("_", "-")] = rows
    return rows


def read(name: str) -> pd.DataFrame:
    """Read a committed table."""
    return pd.read_csv(RESULTS / name)


def interval(row: Any, name: str) -> str:
    """Format a value with its interval."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if math.isnan(low):
        return f"{value:.2f} (no bounds)"
    return f"{value:.2f} ({low:.2f} to {high:.2f})"
